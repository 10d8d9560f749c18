use countersign::committed_plan::{
    CommittedPlan, HeaderProof, OpenPlace, Plan, PlanContext, PlanContract, PlanHeader, PlanLimits, Step,
    StepProof,
};
use countersign::core::{Digest, ServerName, SessionId, ToolId};
use countersign_mcp::read_plan;

/// A plan that is accepted, in its own form or as a client submits it, reads back to itself, has the same root then,
/// and each of its proofs verifies under that root after it was written and read. Other forms read back as well.
pub fn plan(bytes: &[u8]) -> bool {
    let limits = PlanLimits::default();
    let own = Plan::from_json(bytes, &limits).ok();
    let (desk, session) = (ServerName::new("desk").expect("a name"), SessionId::new("s-1").expect("an id"));
    let context = PlanContext::new(Digest::of(b"goal"), session, 7).expect("a context");
    let submitted = read_plan(bytes, &desk, context).ok();
    let accepted = [own, submitted].into_iter().flatten().map(hold_plan).count();

    if let Ok(header) = PlanHeader::from_json(bytes) {
        assert_eq!(PlanHeader::from_json(header.to_json().as_bytes()).as_ref(), Ok(&header));
    }
    if let Ok(proof) = StepProof::from_json(bytes, &limits) {
        assert_eq!(StepProof::from_json(proof.to_json().as_bytes(), &limits).as_ref(), Ok(&proof));
    }
    if let Ok(proof) = HeaderProof::from_json(bytes, &limits) {
        assert_eq!(HeaderProof::from_json(proof.to_json().as_bytes(), &limits).as_ref(), Ok(&proof));
    }
    accepted > 0
}

fn hold_plan(plan: Plan) {
    let text = plan.to_json();
    let again = Plan::from_json(text.as_bytes(), &PlanLimits::default()).expect("a plan's text reads back");
    assert_eq!(again, plan, "a plan reads back to itself");
    assert_eq!(again.to_json(), text, "a plan has one text");
    let (first, second) = (commit(plan), commit(again));
    assert_eq!(first.root(), second.root(), "the root is stable");
    hold_proofs(&first);
}

fn commit(plan: Plan) -> CommittedPlan {
    plan.commit(&AnyPlan).expect("a contract that takes every plan")
}

fn hold_proofs(plan: &CommittedPlan) {
    let limits = PlanLimits::default();
    let header = plan.header_proof().expect("every plan has a header");
    let header = HeaderProof::from_json(header.to_json().as_bytes(), &limits).expect("a proof reads back");
    assert_eq!(header.verify(plan.root()).expect("the plan's own header").header(), plan.header());
    for (index, step) in (1_u64..).zip(plan.steps()) {
        let proof = plan.prove_step(index).expect("a step of the plan");
        let proof = StepProof::from_json(proof.to_json().as_bytes(), &limits).expect("a proof reads back");
        let verified = proof.verify(plan.root()).expect("the plan's own step");
        assert_eq!((verified.index(), verified.step()), (index, step), "a proof is of its step");
    }
}

/// Takes every plan.
struct AnyPlan;

impl PlanContract for AnyPlan {
    fn discloses(&self, _: &ToolId) -> bool {
        true
    }

    fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool {
        true
    }

    fn fits(&self, _: &Step) -> bool {
        true
    }
}
