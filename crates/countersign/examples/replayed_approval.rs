//! Replayed approval: an approval is a ticket for one act. A second use is refused, in this process and in any other.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "common/approver.rs"]
mod approver;
#[path = "common/operator.rs"]
mod operator;

use approver::{approve, open, refund};
use countersign::tool_gate::RejectionCode;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gate = open("replayed-approval")?;
    let args = r#"{"ticket":"T-1001","amount":49}"#;
    let waiting = gate.check(&refund("call-1", args)).err().ok_or("a refund needs approval")?;
    println!("first try: {waiting}");
    assert_eq!(waiting.code(), RejectionCode::ApprovalRequired);

    let token = approve(&waiting)?;
    let mut paid = Vec::new();
    for attempt in ["approved", "replayed"] {
        match gate.check(&refund("call-1", args).approval(token.as_str())) {
            Ok(call) => {
                call.run(|args| {
                    println!("{attempt}: accepted, the desk pays for {}", args.as_str());
                    paid.push(args.digest());
                    Ok::<(), std::io::Error>(())
                })?;
            }
            Err(no) => {
                println!("{attempt}: {no}");
                assert_eq!(no.code(), RejectionCode::ApprovalSpent);
            }
        }
    }
    assert_eq!(paid.len(), 1);
    Ok(())
}
