//! Safe plan: a task goes through the whole pipeline, with a check at each step. The planner plans before it reads any data. The
//! plan is committed, inspected twice and approved as a whole, and each call is verified before its tool runs. Only when the whole
//! plan has run and its root was recomputed does the planner see the results and write the answer.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "common/careful.rs"]
mod careful;
#[path = "common/desk.rs"]
mod desk;
#[path = "common/thinking.rs"]
mod thinking;

use careful::Careful;
use desk::{Desk, Failed};

fn main() -> Result<(), Failed> {
    println!("The ticket asks where the parcel is.");
    let desk = Desk::open("safe-plan", "Where is my parcel?", "in Oslo, arrives on Friday")?;
    let end = desk.run("Please see to Ada's ticket.", Careful, Careful, Careful)?;

    let trace = end.trace().ok_or("there was a plan")?;
    for step in trace.steps() {
        let returned = String::from_utf8_lossy(step.observation());
        println!("  the planner saw of step {} ({}): {returned}", step.index(), step.tool());
    }
    println!("Answer: {}", end.answer());

    let outbox = desk.outbox()?;
    let [(to, body)] = outbox.as_slice() else { return Err("one letter was sent".into()) };
    println!("In the outbox, to {to}: {body}");
    assert_eq!(trace.steps().len(), 3);
    assert_eq!(to, "ada@customers.example");
    assert!(body.contains("Friday") && end.answer().contains("Friday"));
    Ok(())
}
