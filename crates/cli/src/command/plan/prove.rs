use clap::Args;

use super::options::PlainPlan;
use crate::failure::{Exit, Failure};
use crate::output::{Output, counted, internal};

#[derive(Debug, Args)]
pub(crate) struct PlanProveArgs {
    #[command(flatten)]
    plan: PlainPlan,
    /// The step to prove, from 1 on.
    #[arg(long, value_name = "N", required_unless_present = "header")]
    step: Option<u64>,
    /// Prove the header: what the plan is for, and how many steps it has.
    #[arg(long, conflicts_with = "step")]
    header: bool,
}

impl PlanProveArgs {
    /// Prints the proof in either output format in the form that `plan verify` and a gate read.
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let (plan, _) = self.plan.commit()?;
        match self.step {
            Some(step) => {
                let proof = plan.prove_step(step).ok_or_else(|| {
                    let steps = counted(plan.header().steps(), "step");
                    Failure::new("PLAN_NO_SUCH_STEP", format!("the plan has {steps}"))
                })?;
                out.line(&proof.to_json())?;
            }
            None => {
                let proof = plan.header_proof().ok_or_else(|| internal("a plan has no header"))?;
                out.line(&proof.to_json())?;
            }
        }
        Ok(Exit::Done)
    }
}
