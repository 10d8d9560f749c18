//! The laws of `laws.rs` for a machine that has only the plan's root.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use super::laws::{any_steps, changed, committed, honest};
use super::*;

fn read_proof(value: &Value) -> Result<StepProof, PlanError> {
    StepProof::from_json(value.to_string().as_bytes(), &PlanLimits::default())
}

fn call(cursor: &mut RootCursor, step: &Step, proof: &StepProof) -> Result<PlannedCall, PlanBreach> {
    let args = honest(step);
    cursor.check(&StepCall::new(step.tool(), &args, 7).proved_by(proof), &Anything)
}

fn flip(digest: Digest, bit: usize) -> Digest {
    let mut bytes = *digest.as_bytes();
    bytes[bit / 8] ^= 1 << (bit % 8);
    Digest::from_bytes(bytes)
}

/// A manipulation of a proof's hashes.
type PathChange<'a> = &'a dyn Fn(&mut Vec<Value>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn honest_run_passes_split_over_machines(
        steps in any_steps(), machines in proptest::collection::vec(0..3_usize, 64),
    ) {
        let plan = committed(&steps);
        let mut cursors = [root_cursor(&plan), root_cursor(&plan), root_cursor(&plan)];
        for ((step, at), machine) in steps.iter().zip(1..).zip(machines) {
            let proof = plan.prove_step(at).unwrap();
            let cursor = &mut cursors[machine];
            for _ in 0..step.max_calls() {
                let planned = call(cursor, step, &proof).unwrap();
                prop_assert_eq!((planned.index(), planned.root()), (at, plan.root()));
                cursor.accept(planned).unwrap();
            }
            let one_more = call(cursor, step, &proof).unwrap_err();
            prop_assert_eq!(why(one_more), ("PLAN_EXHAUSTED", "count"));
            // The cursor has halted: continue with a new one.
            *cursor = root_cursor(&plan);
        }
    }

    #[test]
    fn any_change_to_a_proof_halts_the_root_cursor(
        steps in any_steps(), at in any::<Index>(), how in any::<u8>(), hash in any::<Index>(),
        bit in 0..256_usize, index in 1..70_u64, count in 1..70_u64,
    ) {
        let plan = committed(&steps);
        let at = at.index(steps.len());
        let proof = plan.prove_step(at as u64 + 1).unwrap();
        let honest_proof: Value = serde_json::from_str(&proof.to_json()).unwrap();
        let refused = |step: &Step, value: &Value| {
            let Ok(forged) = read_proof(value) else { return true };
            let mut cursor = root_cursor(&plan);
            let no = call(&mut cursor, step, &forged).is_err();
            no && cursor.halted().is_some()
                && cursor.position() == 0
                && call(&mut cursor, &steps[at], &proof).is_err()
        };
        prop_assert!(!refused(&steps[at], &honest_proof));
        let with = |change: &dyn Fn(&mut Value)| {
            let mut value = honest_proof.clone();
            change(&mut value);
            value
        };
        let other = changed(&steps[at], how);
        let mut text = String::new();
        other.write(&mut text);
        let edited = with(&|value| value["step"] = serde_json::from_str(&text).unwrap());
        prop_assert!(refused(&other, &edited), "an edited step");
        prop_assert!(index == at as u64 + 1 || refused(&steps[at], &with(&|value| value["index"] = index.into())));
        let same = count == steps.len() as u64;
        prop_assert!(same || refused(&steps[at], &with(&|value| value["steps"] = count.into())));
        let path = honest_proof["path"].as_array().unwrap();
        let hash = hash.index(path.len());
        let flipped = flip(path[hash].as_str().unwrap().parse().unwrap(), bit).to_string();
        let paths: [PathChange<'_>; 4] = [
            &|path| path[hash] = flipped.clone().into(),
            &|path| drop(path.remove(hash)),
            &|path| path.insert(hash, path[hash].clone()),
            &|path| path.push(path[hash].clone()),
        ];
        for change in paths {
            let forged = with(&|value| change(value["path"].as_array_mut().unwrap()));
            prop_assert!(refused(&steps[at], &forged), "a path");
        }
        let root = PlanRoot::from_digest(flip(plan.root().digest(), bit));
        prop_assert!(plan.header_proof().unwrap().verify(&root).is_err(), "the root");
    }

    #[test]
    fn earlier_step_is_refused_by_a_root_cursor(
        steps in any_steps(), first in any::<Index>(), then in any::<Index>(),
    ) {
        let plan = committed(&steps);
        let (first, then) = (first.index(steps.len()), then.index(steps.len()));
        let mut cursor = root_cursor(&plan);
        let planned = call(&mut cursor, &steps[first], &plan.prove_step(first as u64 + 1).unwrap()).unwrap();
        cursor.accept(planned).unwrap();
        let second = call(&mut cursor, &steps[then], &plan.prove_step(then as u64 + 1).unwrap());
        let passes = then > first || (then == first && steps[first].max_calls() > 1);
        prop_assert_eq!(second.is_ok(), passes);
        prop_assert_eq!(cursor.halted().is_some(), !passes);
    }

    #[test]
    fn call_of_another_step_than_proved_is_refused(
        steps in any_steps(), at in any::<Index>(), how in any::<u8>(),
    ) {
        let plan = committed(&steps);
        let at = at.index(steps.len());
        let proof = plan.prove_step(at as u64 + 1).unwrap();
        // Counts and descriptions belong to the plan: a call cannot differ in them.
        let wrong = changed(&steps[at], if how % 5 == 1 || how % 5 == 2 { 0 } else { how });
        let mut cursor = root_cursor(&plan);
        prop_assert!(call(&mut cursor, &wrong, &proof).is_err());
        prop_assert!(cursor.halted().is_some());
    }

    #[test]
    fn any_change_to_a_header_is_refused(steps in any_steps(), bit in 0..256_usize, count in 1..70_u64) {
        let plan = committed(&steps);
        let text = plan.header_proof().unwrap().to_json();
        let value: Value = serde_json::from_str(&text).unwrap();
        let limits = PlanLimits::default();
        prop_assert_eq!(HeaderProof::from_json(text.as_bytes(), &limits).unwrap().to_json(), text);
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut value = value.clone();
            change(&mut value);
            let read = HeaderProof::from_json(value.to_string().as_bytes(), &limits);
            read.is_err() || read.unwrap().verify(plan.root()).is_err()
        };
        let unchanged = refused(&|_| {});
        prop_assert!(!unchanged);
        let goal = flip(Digest::of(b"goal"), bit).to_string();
        prop_assert!(refused(&|value| value["header"]["goal"] = goal.clone().into()));
        prop_assert!(refused(&|value| value["header"]["session"] = "s-2".into()));
        prop_assert!(refused(&|value| value["header"]["registry_version"] = 8.into()));
        let amends = serde_json::json!({ "position": 0, "root": goal });
        prop_assert!(refused(&|value| value["header"]["amends"] = amends.clone()));
        prop_assert!(
            count == steps.len() as u64 || refused(&|value| value["header"]["steps"] = count.into())
        );
    }
}
