use super::registries::*;
use super::two_gates::*;
use crate::*;
use proptest::prelude::*;

/// Returns `true` if this input may have been carried over for the answer when the record has all arguments.
fn may_be_missing(answer: Answer, missing: Missing) -> bool {
    use RejectionCode::*;
    let answers: &[Answer] = match missing {
        Missing::Call => &[Answer::Refused(MalformedCall)],
        Missing::Goal => &[Answer::Refused(AskExpired)],
        Missing::Plan => &[Answer::Refused(PlanRequired)],
        Missing::Checks => &[Answer::Refused(CheckRefused)],
        Missing::Approval => &[
            Answer::Accepted,
            Answer::Refused(PicEvidenceFailed),
            Answer::Refused(CheckRefused),
            Answer::Refused(ApprovalSpent),
        ],
        Missing::Session
        | Missing::Parent
        | Missing::Code
        | Missing::Sum
        | Missing::Registry
        | Missing::Server
        | Missing::Arguments
        | Missing::EarlierCall
        | Missing::Proposal
        | Missing::Store
        | Missing::Host
        | _ => &[],
    };
    answers.contains(&answer)
}

fn answer_of(call: &countersign_audit_log::CallRecord) -> Answer {
    call.code.as_ref().map_or(Answer::Accepted, |text| {
        let code = RejectionCode::ALL.iter().find(|code| code.as_str() == text.as_str());
        Answer::Refused(*code.unwrap())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn against_the_same_registry_every_answer_comes_again(spec in registry_spec(), acts in acts()) {
        let registry = load(1, &spec);
        let mut host = Host::new(registry, all_arguments(31));
        let given = play(&acts, &mut host, None);
        let mut simulation = Simulation::new(host.registry.view());
        let simulated = simulate(&mut simulation, &host.sink);
        prop_assert_eq!(given.len(), simulated.len());
        for (given, (call, simulated)) in given.into_iter().zip(simulated) {
            prop_assert_eq!(given, Some(answer_of(&call)));
            if let Simulated::Same(Basis::Carried(missing)) = simulated {
                prop_assert!(may_be_missing(answer_of(&call), missing), "{missing} {call:?}");
            } else {
                prop_assert_eq!(simulated, Simulated::Same(Basis::Redecided), "{:?}", call);
            }
        }
    }

    #[test]
    fn simulation_matches_real_gates_of_the_other_registry(
        (here, there) in other_spec(), acts in acts(), recorded in 0_u8..32, is_known: bool,
    ) {
        let mut host = Host::new(load(1, &here), all_arguments(recorded));
        let mut other = Host::new(load(2, &there), RecordedFields::new());
        let given = play(&acts, &mut host, Some(&mut other));
        let mut simulation = Simulation::new(other.registry.view());
        if is_known {
            simulation = simulation.was(host.registry.view());
        }
        let simulated = simulate(&mut simulation, &host.sink);
        prop_assert_eq!(given.len(), simulated.len());
        for (given, (call, simulated)) in given.into_iter().zip(simulated) {
            let recorded = answer_of(&call);
            let expected = match simulated {
                Simulated::Undetermined(_) => continue,
                Simulated::Same(_) => recorded,
                Simulated::Changed { recorded: then, now, .. } => {
                    prop_assert_eq!(then, recorded);
                    prop_assert_ne!(then, now);
                    now
                }
            };
            prop_assert_eq!(given, Some(expected), "{:?} {:?}", simulated, call);
        }
    }
}
