//! Changed arguments: an approval binds the digest of the arguments. Reordered members, or `49.0` instead of `49`, are
//! the same call. Another amount is another call.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "common/approver.rs"]
mod approver;
#[path = "common/operator.rs"]
mod operator;

use approver::{approve, open, refund};
use countersign::tool_gate::{Rejection, RejectionCode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gate = open("changed-arguments")?;
    let waiting = gate
        .check(&refund("call-1", r#"{"ticket":"T-1001","amount":49}"#))
        .err()
        .ok_or("a refund needs approval")?;
    let token = approve(&waiting)?;

    for changed in [r#"{"ticket":"T-1001","amount":4900}"#, r#"{"ticket":"T-1002","amount":49}"#] {
        let no = gate
            .check(&refund("call-1", changed).approval(token.as_str()))
            .err()
            .ok_or("changed, yet allowed")?;
        println!("{changed}: {no}");
        assert_eq!(no.code(), RejectionCode::ApprovalInvalid);
    }
    let same = r#"{ "amount": 49.0, "ticket": "T-1001" }"#;
    let ran = gate
        .check(&refund("call-1", same).approval(token.as_str()))?
        .run(|args| Ok::<_, Rejection>(args.digest()))?;
    println!("{same}: accepted, digest {ran}");
    Ok(())
}
