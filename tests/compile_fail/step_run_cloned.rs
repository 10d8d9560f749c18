//! A step that ran cannot be cloned: it is observed once.
use countersign::committed_plan::StepRun;

fn twice(run: StepRun) -> (StepRun, StepRun) {
    (run.clone(), run)
}

fn main() {}
