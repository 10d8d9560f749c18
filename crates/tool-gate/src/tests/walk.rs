use crate::RejectionCode;
use crate::order::{GateStep, StepsTaken};
use crate::rejection::Refusal;

fn walked(all: &[GateStep]) -> Result<(), RejectionCode> {
    let mut steps = StepsTaken::start();
    for step in all {
        steps.take(*step, Ok::<_, Refusal>(())).map_err(|refusal| refusal.code)?;
    }
    steps.end().map_err(|refusal| refusal.code)
}

#[test]
fn all_steps_in_their_order_pass() {
    assert_eq!(walked(&GateStep::ALL), Ok(()));
}

#[test]
fn step_that_is_left_out_refuses() {
    for at in 0..GateStep::ALL.len() {
        let mut steps = GateStep::ALL.to_vec();
        steps.remove(at);
        assert_eq!(walked(&steps), Err(RejectionCode::Internal), "{at}");
    }
}

#[test]
fn step_out_of_its_order_refuses() {
    for at in 1..GateStep::ALL.len() {
        let mut steps = GateStep::ALL.to_vec();
        steps.swap(at, at - 1);
        assert_eq!(walked(&steps), Err(RejectionCode::Internal), "{at}");
    }
}
