use serde_json::json;

use super::approval_branches::{paid, small, world_with};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

#[test]
fn edited_call_spends_its_approval_even_if_it_needs_none() {
    let world = world_with(&small(), |_| ());
    let gate = world.gate();
    let (asked, args, other) = (paid(&json!(50)), paid(&json!(2)), paid(&json!(3)));
    let question = |args| gate.check(&ToolCall::new("c1", "desk", "refund", args)).unwrap_err();
    let binding = question(&asked).approval_request().unwrap().binding().clone();
    let digest = binding.args;
    let edited = |args| ToolCall::new("c1", "desk", "refund", args).edited_from(&digest);
    assert_eq!(code(&gate, &edited(&args)), Some(ApprovalRequired), "the rule alone would let it pass");
    let token = mint_for(&world, &binding, 1);
    let of_the_asked = edited(&args).approval(&token);
    assert_eq!(code(&gate, &of_the_asked), Some(ApprovalInvalid), "the token is of the agent's arguments");
    let mut theirs = binding;
    theirs.args = countersign_core::Digest::of(&args);
    let token = mint_for(&world, &theirs, 2);
    assert_eq!(code(&gate, &edited(&other).approval(&token)), Some(ApprovalInvalid));
    assert_eq!(code(&gate, &edited(&args).approval(&token)), None);
    let record = last_decision(&world);
    assert_eq!((record.edited_from, record.args), (Some(digest), Some(theirs.args)));
    assert_eq!(code(&gate, &edited(&args).approval(&token)), Some(ApprovalSpent));
}

#[test]
fn edited_call_passes_every_other_check() {
    let world = world_with(&small(), |tool| {
        tool["constraints"] = json!([{"kind": "number", "at": "/amount", "max": 60}]);
    });
    let gate = world.gate();
    let asked = paid(&json!(50));
    let refused = gate.check(&ToolCall::new("c1", "desk", "refund", &asked)).unwrap_err();
    let mut binding = refused.approval_request().unwrap().binding().clone();
    let digest = binding.args;
    for (args, wanted) in [(paid(&json!(61)), ArgsConstraint), (paid(&json!("x")), ArgsSchema)] {
        binding.args = countersign_core::Digest::of(&args);
        let token = mint_for(&world, &binding, 3);
        let call = ToolCall::new("c1", "desk", "refund", &args).edited_from(&digest).approval(&token);
        assert_eq!(code(&gate, &call), Some(wanted));
    }
}
