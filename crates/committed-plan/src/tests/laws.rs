use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use super::*;

/// Nested JSON with open places.
fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(Value::from),
        "[ -~\u{e9}\u{1f600}]{0,12}".prop_map(Value::from),
        Just(Value::from(DYNAMIC)),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-z~/\u{e9}]{1,4}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn any_step()(
        name in "[a-z]{1,6}", args in btree_map("[a-z]{1,4}", any_value(), 0..4), calls in 1..4_u32,
        description in proptest::option::of("[ -~]{0,20}"),
    ) -> Step {
        let args = Value::Object(args.into_iter().collect::<Map<_, _>>()).to_string();
        let step = step(&name, &args).calls(calls).unwrap();
        match description {
            Some(text) => step.describe(&text).unwrap(),
            None => step,
        }
    }
}

pub(super) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    vec(any_step(), 1..=64)
}

pub(super) fn committed(steps: &[Step]) -> CommittedPlan {
    Plan::new(context(), steps.to_vec()).unwrap().commit(&Anything).unwrap()
}

/// Fills in every open place.
fn filled(value: &Value) -> Value {
    match value {
        Value::String(text) if text == DYNAMIC => json!({ "filled": [1, "in"] }),
        Value::Array(elements) => elements.iter().map(filled).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (name.clone(), filled(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

pub(super) fn honest(step: &Step) -> Canonical {
    let args: Value = serde_json::from_str(step.args().as_str()).unwrap();
    json(&filled(&args).to_string())
}

/// Changes one property of a step.
pub(super) fn changed(step: &Step, how: u8) -> Step {
    let mut args: Value = serde_json::from_str(step.args().as_str()).unwrap();
    let name = step.tool().name().as_str();
    let of = |name: &str, args: &Value| {
        let changed = self::step(name, &args.to_string()).calls(step.max_calls()).unwrap();
        match step.description() {
            Some(text) => changed.describe(text).unwrap(),
            None => changed,
        }
    };
    match how % 5 {
        0 => of(&format!("{name}x"), &args),
        1 => of(name, &args).calls(step.max_calls() + 1).unwrap(),
        2 => of(name, &args).describe("another description than any above").unwrap(),
        3 => {
            args["added"] = 1.into();
            of(name, &args)
        }
        _ => {
            // Any value at an open place only fills it in.
            let fixed = args.as_object().unwrap().iter().find(|(_, value)| value.as_str() != Some(DYNAMIC));
            let first = fixed.map_or_else(|| "added".to_owned(), |(name, _)| name.clone());
            args[&first] = json!({ "another": args[&first] });
            of(name, &args)
        }
    }
}

/// A manipulation of the committed steps.
type Edit<'a> = &'a dyn Fn(&mut Vec<Step>);

pub(super) fn start(plan: CommittedPlan) -> PlanCursor<u64> {
    PlanCursor::start(plan, &context()).unwrap()
}

pub(super) fn call<O>(
    cursor: &mut PlanCursor<O>,
    at: u64,
    step: &Step,
    args: &Canonical,
) -> Result<PlannedCall, PlanBreach> {
    cursor.check(&StepCall::new(step.tool(), args, 7).at_step(at))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_honest_run_passes(steps in any_steps(), named in any::<bool>(), all in any::<bool>()) {
        let mut cursor = start(committed(&steps));
        let root = *cursor.plan().root();
        let mut calls = 0;
        for (step, at) in steps.iter().zip(1..) {
            // Without a named step, a call that matches two steps goes to the earlier one, so use up its calls first.
            let times = if all || !named { step.max_calls() } else { 1 };
            for _ in 0..times {
                let args = honest(step);
                let asked = StepCall::new(step.tool(), &args, 7);
                let planned = cursor.check(&if named { asked.at_step(at) } else { asked }).unwrap();
                prop_assert_eq!((planned.index(), planned.root()), (at, &root));
                let run = cursor.accept(planned).unwrap();
                calls += 1;
                cursor.observe(run, calls, calls).unwrap();
            }
        }
        let trace = cursor.finish().unwrap();
        prop_assert_eq!(trace.steps().len() as u64, calls);
        prop_assert!(trace.steps().iter().zip(1..).all(|(step, at)| (*step.observation(), step.record()) == (at, at)));
    }

    #[test]
    fn every_proof_holds_and_no_other_step_passes_for_it(
        steps in any_steps(), at in any::<Index>(), other in any::<Index>(), how in any::<u8>(),
    ) {
        let plan = committed(&steps);
        let at = at.index(steps.len());
        let proof = plan.prove_step(at as u64 + 1).unwrap();
        let text = proof.to_json();
        let verified = proof.verify(plan.root()).unwrap();
        prop_assert_eq!(verified.admits(steps[at].tool(), &honest(&steps[at])), Ok(()));
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let mut written = String::new();
        changed(&steps[at], how).write(&mut written);
        value["step"] = serde_json::from_str(&written).unwrap();
        let forged = StepProof::from_json(value.to_string().as_bytes(), &PlanLimits::default()).unwrap();
        prop_assert!(forged.verify(plan.root()).is_err());
        let other = other.index(steps.len());
        if steps[other] != steps[at] {
            let mut written = String::new();
            steps[other].write(&mut written);
            value["step"] = serde_json::from_str(&written).unwrap();
            let forged = StepProof::from_json(value.to_string().as_bytes(), &PlanLimits::default()).unwrap();
            prop_assert!(forged.verify(plan.root()).is_err());
        }
    }

    #[test]
    fn any_change_to_a_proof_is_refused(
        steps in any_steps(), at in any::<Index>(), hash in any::<Index>(), bit in 0..256_usize,
        index in 0..70_u64, count in 0..70_u64,
    ) {
        let plan = committed(&steps);
        let at = at.index(steps.len()) as u64 + 1;
        let value: Value = serde_json::from_str(&plan.prove_step(at).unwrap().to_json()).unwrap();
        let refused = |value: &Value, root: &PlanRoot| {
            let proof = StepProof::from_json(value.to_string().as_bytes(), &PlanLimits::default());
            proof.is_err() || proof.unwrap().verify(root).is_err()
        };
        prop_assert!(!refused(&value, plan.root()));
        let flip = |digest: Digest| {
            let mut bytes = *digest.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            Digest::from_bytes(bytes)
        };
        prop_assert!(refused(&value, &PlanRoot::from_digest(flip(plan.root().digest()))));
        if index != at {
            let mut other = value.clone();
            other["index"] = index.into();
            prop_assert!(refused(&other, plan.root()));
        }
        if count != steps.len() as u64 {
            let mut other = value.clone();
            other["steps"] = count.into();
            prop_assert!(refused(&other, plan.root()));
        }
        let path = value["path"].as_array().unwrap();
        let hash = hash.index(path.len());
        let mut other = value.clone();
        let digest: Digest = path[hash].as_str().unwrap().parse().unwrap();
        other["path"][hash] = flip(digest).to_string().into();
        prop_assert!(refused(&other, plan.root()));
        let mut other = value.clone();
        other["path"].as_array_mut().unwrap().remove(hash);
        prop_assert!(refused(&other, plan.root()));
        let mut other = value.clone();
        other["path"].as_array_mut().unwrap().insert(hash, path[hash].clone());
        prop_assert!(refused(&other, plan.root()));
    }

    #[test]
    fn any_change_to_committed_steps_halts_the_run(
        steps in any_steps(), at in any::<Index>(), other in any::<Index>(), how in any::<u8>(),
    ) {
        let (at, other) = (at.index(steps.len()), other.index(steps.len()));
        let edits: [Edit<'_>; 4] = [
            &|all| all[at] = changed(&all[at], how),
            &|all| all.swap(at, other),
            &|all| drop(all.remove(at)),
            &|all| all.insert(at, changed(&all[at], how)),
        ];
        for edit in edits {
            let mut cursor = start(committed(&steps));
            edit(cursor.plan.tamper());
            let now = cursor.plan().steps().to_vec();
            if now == steps {
                continue;
            }
            let mut passed = true;
            for (step, at) in now.iter().zip(1..) {
                passed = passed && match call(&mut cursor, at, step, &honest(step)) {
                    Ok(planned) => {
                        let run = cursor.accept(planned).unwrap();
                        cursor.observe(run, 0, 0).is_ok()
                    }
                    Err(_) => false,
                };
            }
            prop_assert!(!passed || cursor.finish().is_err());
        }
    }

    #[test]
    fn any_other_call_halts_the_plan(
        steps in any_steps(), before in any::<Index>(), at in 0..70_u64, how in any::<u8>(),
    ) {
        let before = before.index(steps.len());
        let mut cursor = start(committed(&steps));
        for (step, at) in steps.iter().zip(1..).take(before) {
            let planned = call(&mut cursor, at, step, &honest(step)).unwrap();
            let run = cursor.accept(planned).unwrap();
            cursor.observe(run, 0, 0).unwrap();
        }
        let before = before as u64;
        let next = &steps[before as usize];
        let repeat = before > 0 && at == before && steps[before as usize - 1].max_calls() > 1;
        if at != before + 1 && !repeat {
            let step = steps.get((at as usize).wrapping_sub(1)).unwrap_or(next);
            prop_assert!(call(&mut cursor, at, step, &honest(step)).is_err());
        } else {
            let wrong = changed(next, if how % 5 == 1 || how % 5 == 2 { 0 } else { how });
            prop_assert!(call(&mut cursor, before + 1, &wrong, &honest(&wrong)).is_err());
        }
        prop_assert!(cursor.halted().is_some());
        prop_assert!(call(&mut cursor, before + 1, next, &honest(next)).is_err());
        prop_assert_eq!(cursor.position(), before);
        prop_assert!(cursor.finish().is_err());
    }

    #[test]
    fn written_plan_has_the_same_root(steps in any_steps()) {
        let plan = Plan::new(context(), steps).unwrap();
        let text = plan.to_json();
        let again = Plan::from_json(text.as_bytes(), &PlanLimits::default()).unwrap();
        prop_assert_eq!(&again, &plan);
        prop_assert_eq!(again.to_json(), text);
        prop_assert_eq!(*again.commit(&Anything).unwrap().root(), *plan.commit(&Anything).unwrap().root());
    }

    #[test]
    fn reading_any_text_never_panics(text in "\\PC{0,80}", json in any_value()) {
        let limits = PlanLimits::default();
        for text in [text, json.to_string()] {
            prop_assert!(Plan::from_json(text.as_bytes(), &limits).is_err());
            prop_assert!(StepProof::from_json(text.as_bytes(), &limits).is_err());
            prop_assert!(PlanHeader::from_json(text.as_bytes()).is_err());
            let _ = Step::list_from_json(text.as_bytes(), &limits);
            let _ = Step::new(tool("send"), text.as_bytes(), &[]);
        }
    }
}
