use countersign_merkle::InclusionProof;

use super::*;

fn read_proof(text: &str) -> Result<StepProof, PlanError> {
    StepProof::from_json(text.as_bytes(), &PlanLimits::default())
}

/// A plan of seven steps.
fn seven() -> CommittedPlan {
    plan_of((0..7).map(|at| step("search", &format!(r#"{{"query":"{at}"}}"#))).collect())
}

fn leaf_refused(proof: StepProof, root: &PlanRoot) {
    assert_eq!(why(proof.verify(root).unwrap_err()), ("PLAN_STEP_MISMATCH", "leaf"));
}

#[test]
fn every_step_is_proved_by_the_root_alone() {
    let plan = seven();
    for index in 1..=7 {
        let proof = plan.prove_step(index).unwrap();
        let read = read_proof(&proof.to_json()).unwrap();
        assert_eq!(read, proof);
        assert_eq!(json(&proof.to_json()).as_str(), proof.to_json());
        let verified = read.verify(plan.root()).unwrap();
        assert_eq!((verified.root(), verified.index(), verified.steps()), (plan.root(), index, 7));
        assert_eq!(verified.step(), plan.step(index).unwrap());
        let call = format!(r#"{{"query":"{}"}}"#, index - 1);
        assert_eq!(verified.admits(&tool("search"), &json(&call)), Ok(()));
        let breach = verified.admits(&tool("search"), &json(r#"{"query":"x"}"#)).unwrap_err();
        assert_eq!(why(breach), ("PLAN_STEP_MISMATCH", "fixed-argument"));
    }
    assert_eq!(plan.prove_step(0), None);
    assert_eq!(plan.prove_step(8), None);
}

#[test]
fn a_changed_index_or_size_is_refused() {
    let plan = seven();
    for index in 1..=7_u64 {
        let text = plan.prove_step(index).unwrap().to_json();
        for other in 0..=9_u64 {
            if other != index {
                let changed =
                    text.replace(&format!(r#"{{"index":{index}"#), &format!(r#"{{"index":{other}"#));
                assert_ne!(changed, text);
                if let Ok(proof) = read_proof(&changed) {
                    leaf_refused(proof, plan.root());
                }
            }
            if other != 7 {
                let changed = text.replace(r#""steps":7"#, &format!(r#""steps":{other}"#));
                assert_ne!(changed, text);
                // A path can match two sizes; the leaf states the right one.
                if let Ok(proof) = read_proof(&changed) {
                    leaf_refused(proof, plan.root());
                }
            }
        }
    }
}

#[test]
fn a_proof_that_is_too_short_or_too_long_is_refused() {
    let plan = seven();
    for index in 1..=7 {
        let text = plan.prove_step(index).unwrap().to_json();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let path = value["path"].as_array().unwrap().clone();
        for at in 0..=path.len() {
            let mut longer = value.clone();
            longer["path"].as_array_mut().unwrap().insert(at, plan.root().to_string().into());
            leaf_refused(read_proof(&longer.to_string()).unwrap(), plan.root());
            if at < path.len() {
                let mut shorter = value.clone();
                shorter["path"].as_array_mut().unwrap().remove(at);
                leaf_refused(read_proof(&shorter.to_string()).unwrap(), plan.root());
            }
        }
    }
}

#[test]
fn a_proof_for_another_plan_is_refused() {
    let (plan, other) = (seven(), plan_of(steps()));
    for index in 1..=3 {
        leaf_refused(plan.prove_step(index).unwrap(), other.root());
        leaf_refused(other.prove_step(index).unwrap(), plan.root());
    }
}

#[test]
fn a_header_does_not_pass_for_a_step() {
    let plan = seven();
    let path = plan.prove_header().unwrap();
    let hashes: Vec<String> = path.path().iter().map(|hash| format!("\"{hash}\"")).collect();
    let text = plan.prove_step(1).unwrap().to_json();
    let path_at = text.find(r#""path":"#).unwrap();
    let step_at = text.find(r#","step":"#).unwrap();
    let forged = format!(r#"{{"index":0,"path":[{}]{}"#, hashes.join(","), &text[step_at..]);
    assert!(path_at < step_at);
    assert_eq!(read_proof(&forged).unwrap_err().code(), "PLAN_SHAPE");
}

#[test]
fn a_proof_is_read_strictly() {
    let plan = plan_of(vec![step("search", "{}")]);
    let text = plan.prove_step(1).unwrap().to_json();
    assert!(read_proof(&text).is_ok());
    for (from, to) in [
        (r#""index":1"#, r#""index":-1"#),
        (r#""index":1"#, r#""index":2"#),
        (r#""index":1"#, r#""index":"1""#),
        (r#""index":1,"#, ""),
        (r#""index":1,"#, r#""index":1,"more":1,"#),
        (r#""steps":1"#, r#""steps":0"#),
        (r#""path":["#, r#""path":[7,"#),
        (r#""path":[""#, r#""path":["F"#),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        assert_eq!(read_proof(&changed).unwrap_err().code(), "PLAN_SHAPE", "{to}");
    }
    assert_eq!(
        read_proof(&text.replace(r#""index":1"#, r#""index":1,"index":1"#)).unwrap_err().code(),
        "PLAN_JSON"
    );
    let step = text.replace(r#""max_calls":1"#, r#""max_calls":0"#);
    assert_eq!(read_proof(&step).unwrap_err().code(), "PLAN_MAX_CALLS");
}

#[test]
fn a_header_is_proved_by_the_root_alone() {
    let plan = seven();
    let proof = plan.prove_header().unwrap();
    let header = PlanHeader::from_json(plan.header().to_json().as_bytes()).unwrap();
    assert_eq!(header.verify(plan.root(), &proof), Ok(()));
    let refused = |header: &PlanHeader, root: &PlanRoot, proof: &InclusionProof| {
        assert_eq!(why(header.verify(root, proof).unwrap_err()), ("PLAN_STEP_MISMATCH", "header"));
    };
    let text = header.to_json();
    for (from, to) in [("s-1", "s-2"), (r#"version":7"#, r#"version":8"#), (r#""steps":7"#, r#""steps":6"#)] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        refused(&PlanHeader::from_json(changed.as_bytes()).unwrap(), plan.root(), &proof);
    }
    refused(&header, &PlanRoot::from_digest(Digest::of(b"other")), &proof);
    let other = InclusionProof::new(1, 8, proof.path().to_vec()).unwrap();
    refused(&header, plan.root(), &other);
    // A forged tree in which the header is a leaf other than the first.
    use countersign_merkle::{LeafHash, MerkleTree};
    let mut leaves: Vec<LeafHash> = (0..8_u8).map(|at| LeafHash::of(&[at])).collect();
    leaves[3] = LeafHash::of(text.as_bytes());
    let forged: MerkleTree = leaves.into_iter().collect();
    let root = PlanRoot::from_digest(forged.root().digest());
    refused(&header, &root, &forged.prove_inclusion(3).unwrap());
    for bad in [r#"{"steps":1}"#, "[]", "{", &text.replace(r#""steps":7"#, r#""steps":0"#)] {
        assert!(PlanHeader::from_json(bad.as_bytes()).is_err());
    }
}
