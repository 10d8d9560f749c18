//! Public vectors under `tests/vectors/committed-plan`, run through the library. `cargo run -p xtask -- vectors` makes
//! them.

mod root_runs;

use std::collections::BTreeSet;

use countersign_keys::MacKey;
use countersign_test_vectors::Vectors;
use serde_json::{Value, json};

use super::*;

/// A contract as data: the tools of `desk` with their data arguments, and the tools whose fixed arguments are refused.
struct Allowed {
    tools: Value,
    unfit: Value,
}

impl Allowed {
    fn of(case: &Value) -> Self {
        Self { tools: case["allowed"].clone(), unfit: case["unfit"].clone() }
    }
}

impl PlanContract for Allowed {
    fn discloses(&self, tool: &ToolId) -> bool {
        tool.server().as_str() == "desk" && self.tools.get(tool.name().as_str()).is_some()
    }

    fn is_data(&self, tool: &ToolId, place: &OpenPlace) -> bool {
        let data = self.tools[tool.name().as_str()].as_array().unwrap();
        data.iter().any(|data| data == place.as_str())
    }

    fn fits(&self, step: &Step) -> bool {
        let mut unfit = self.unfit.as_array().into_iter().flatten();
        unfit.all(|name| name != step.tool().name().as_str())
    }
}

#[test]
fn every_vector_on_disk_has_its_verdict() {
    let files = Vectors::of("committed-plan").on_disk();
    let (mut codes, mut reasons) = (BTreeSet::new(), BTreeSet::new());
    for (name, text) in &files {
        let case: Value = serde_json::from_str(text).unwrap();
        let expected = case["expect"].as_str().unwrap();
        assert_eq!(name.starts_with("accept/"), expected == "ok", "{name}");
        let verdict = match case["kind"].as_str().unwrap() {
            "plan" | "run" => plan_verdict(&case),
            "proof" => proof_verdict(&case),
            "header" => header_verdict(&case),
            "root-run" => root_runs::verdict(&case),
            "seal" => seal_verdict(&case),
            unknown => panic!("{name}: {unknown}"),
        };
        assert_eq!(verdict.map_or_else(|code| code, |()| "ok"), expected, "{name}");
        codes.insert(expected.to_owned());
        let events = case["events"].as_array().into_iter().flatten();
        reasons.extend(events.filter_map(|event| event["reason"].as_str().map(str::to_owned)));
    }
    assert!(files.len() >= 130 && codes.len() >= 30, "{} vectors, {} codes", files.len(), codes.len());
    for error in [
        PlanUseError::OtherSession,
        PlanUseError::OtherGoal,
        PlanUseError::OtherRegistry,
        PlanUseError::Link,
        PlanUseError::NotApproved,
        PlanUseError::Halted,
        PlanUseError::Busy,
        PlanUseError::Header,
        PlanUseError::TooMany,
    ] {
        assert!(codes.contains(error.code()), "{error}");
    }
    assert!(reasons.len() >= 17, "{reasons:?}");
}

/// Verifies the header of a vector.
fn header_verdict(case: &Value) -> Result<(), &'static str> {
    let proof = read_header_proof(case)?;
    let verified = proof.verify(&root_in(case)).map_err(|error| error.code())?;
    if let Some(leaf) = case.get("leaf") {
        assert_eq!(leaf.as_str(), Some(verified.header().to_json().as_str()));
    }
    Ok(())
}

fn read_header_proof(case: &Value) -> Result<HeaderProof, &'static str> {
    let text = case["header_proof"].as_str().unwrap();
    HeaderProof::from_json(text.as_bytes(), &PlanLimits::default()).map_err(|error| error.code())
}

fn root_in(case: &Value) -> PlanRoot {
    serde_json::from_value(case["root"].clone()).unwrap()
}

fn context_in(case: &Value) -> PlanContext {
    let context = &case["context"];
    let goal = context["goal"].as_str().unwrap().parse().unwrap();
    let session = session(context["session"].as_str().unwrap());
    PlanContext::new(goal, session, context["registry_version"].as_u64().unwrap()).unwrap()
}

/// The calls of a vector.
fn calls_in(case: &Value) -> Vec<(ToolId, Canonical)> {
    let calls = case["calls"].as_array().into_iter().flatten();
    let parsed = |call: &Value| {
        let tool = serde_json::from_value(call["tool"].clone()).unwrap();
        (tool, json(call["args"].as_str().unwrap()))
    };
    calls.map(parsed).collect()
}

/// Verifies a step and its call. Returns the code of the first refusal.
fn proof_verdict(case: &Value) -> Result<(), &'static str> {
    let text = case["proof"].to_string();
    let proof = StepProof::from_json(text.as_bytes(), &PlanLimits::default()).map_err(|e| e.code())?;
    let root = serde_json::from_value(case["root"].clone()).unwrap();
    let step = proof.verify(&root).map_err(|breach| breach.code())?;
    let admits =
        |(tool, args): (ToolId, Canonical)| step.admits(&tool, &args).map_err(|breach| breach.code());
    calls_in(case).into_iter().try_for_each(admits)
}

/// Commits a plan and runs the calls of the vector. Returns the code of the first refusal.
fn plan_verdict(case: &Value) -> Result<(), &'static str> {
    let plan = Plan::from_json(case["plan"].as_str().unwrap().as_bytes(), &PlanLimits::default())
        .map_err(|e| e.code())?;
    if let Some(leaves) = case["leaves"].as_array() {
        let steps = plan.header().steps();
        let made = (1..).zip(plan.steps()).map(|(at, step)| step.leaf(at, steps));
        let made: Vec<String> = std::iter::once(plan.header().to_json()).chain(made).collect();
        assert_eq!(*leaves, made);
    }
    let plan = plan.commit(&Allowed::of(case)).map_err(|e| e.code())?;
    if let Some(root) = case.get("root") {
        assert_eq!(json!(plan.root()), *root);
        return Ok(());
    }
    let mut cursor = PlanCursor::start(plan, &context()).map_err(|e| e.code())?;
    for (tool, args) in calls_in(case) {
        let planned = cursor.check(&StepCall::new(&tool, &args, 7)).map_err(|breach| breach.code())?;
        let run = cursor.accept(planned).map_err(|breach| breach.code())?;
        cursor.observe(run, (), 0).map_err(|breach| breach.code())?;
    }
    if case["kind"] == "run" {
        let _trace = cursor.finish().map_err(|e| e.code())?;
    }
    Ok(())
}

/// Opens a sealed root and seals it again.
fn seal_verdict(case: &Value) -> Result<(), &'static str> {
    let text = |name: &str| case[name].as_str().unwrap();
    let secret: Vec<u8> =
        (0..64).step_by(2).map(|at| u8::from_str_radix(&text("key")[at..at + 2], 16).unwrap()).collect();
    let (key, session) = (MacKey::from_bytes(&secret).unwrap(), session(text("session")));
    let root = PlanRoot::open(text("sealed"), &session, &key).map_err(|error| error.code())?;
    assert_eq!(root.to_string(), text("root"));
    assert_eq!(root.seal(&session, &key).unwrap(), text("sealed"));
    Ok(())
}
