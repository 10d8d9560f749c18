//! One changed bit anywhere is a refusal.

use proptest::prelude::*;

use super::*;

fn verify_with(
    token: &ApprovalToken,
    keys: &RunKeys,
    binding: &CallFacts,
) -> Result<Approval, ApprovalError> {
    verify(token, keys, binding, at(1_000_000), &STRICT)
}

/// Any valid id.
fn any_id() -> impl Strategy<Value = String> {
    proptest::collection::vec("[a-z0-9|.:,\"\\\\{}\u{e9}\u{4e2d}\u{1f600}]", 1..12)
        .prop_map(|parts| parts.concat())
}

fn any_name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_./-]{1,12}"
}

prop_compose! {
    fn any_binding()(
        ids in proptest::array::uniform5(any_id()),
        names in proptest::array::uniform2(any_name()),
        digests in proptest::array::uniform4(any::<[u8; 32]>()),
        version in 0..1_u64 << 53,
        present in any::<[bool; 7]>(),
    ) -> CallFacts {
        let [call, principal, agent, session, audience] = ids;
        let [args, definition, ask, plan] = digests.map(Digest::from_bytes);
        let tool = ToolId::new(&names[0], &names[1]).unwrap();
        let mut binding = CallFacts::new(
            CallId::new(&call).unwrap(), tool, args, Recipe::Jcs1, Principal::new(&principal).unwrap(),
        );
        if present[0] { binding = binding.agent(AgentId::new(&agent).unwrap()); }
        if present[1] { binding = binding.session(SessionId::new(&session).unwrap()); }
        if present[2] { binding = binding.definition(definition); }
        if present[3] { binding = binding.ask(ask); }
        if present[4] { binding = binding.plan(plan); }
        if present[5] { binding = binding.registry_version(version); }
        if present[6] { binding = binding.audience(Audience::new(&audience).unwrap()); }
        binding
    }
}

/// The binding with one bit changed in one field, if it is still a binding. In ids and names the text changes, in
/// digests and numbers the value.
fn change_bit(binding: &CallFacts, field: usize, bit: usize) -> Option<CallFacts> {
    let mut json = serde_json::to_value(binding).unwrap();
    let fields = json.as_object_mut().unwrap();
    let names: Vec<String> = fields.keys().cloned().collect();
    let value = &mut fields[&names[field % names.len()]];
    let value = if value.is_object() { &mut value[["server", "name"][bit % 2]] } else { value };
    if let Some(number) = value.as_u64() {
        *value = (number ^ 1 << (bit % 53)).into();
    } else {
        let text = value.as_str().unwrap();
        let digest = text.parse::<Digest>();
        let mut bytes = digest.map_or_else(|_| text.as_bytes().to_vec(), |digest| digest.as_bytes().to_vec());
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let changed = match digest {
            Ok(_) => Digest::from_bytes(bytes.try_into().unwrap()).to_string(),
            Err(_) => String::from_utf8(bytes).ok()?,
        };
        *value = changed.into();
    }
    serde_json::from_value(json).ok()
}

proptest! {
    #[test]
    fn a_token_verifies_for_its_own_call(binding in any_binding(), id in any_id(), run in any_id()) {
        let keys = run_keys("k1", 1, &run);
        let token = mint(&keys, &binding, &terms(&id), DEFAULT_TTL_CAP).unwrap();
        let approval = verify_with(&token, &keys, &binding).unwrap();
        prop_assert_eq!(approval.token_id().as_str(), id);
        let again: ApprovalToken = token.as_str().parse().unwrap();
        prop_assert!(verify_with(&again, &keys, &binding).is_ok());
    }

    #[test]
    fn one_changed_bit_in_a_token_is_a_refusal(
        binding in any_binding(), at in any::<prop::sample::Index>(), bit in 0..7_u8,
    ) {
        let good = minted(&binding, &terms("t"));
        let mut bytes = good.as_str().as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let text = String::from_utf8(bytes).unwrap();
        let result = text.parse().and_then(|token| verify_with(&token, &keys(), &binding));
        prop_assert_eq!(result.unwrap_err().code(), "APPROVAL_INVALID");
    }

    #[test]
    fn one_changed_bit_in_the_key_is_a_refusal(binding in any_binding(), bit in 0..256_usize) {
        let good = minted(&binding, &terms("t"));
        let mut bytes = [1; 32];
        bytes[bit / 8] ^= 1 << (bit % 8);
        let other = ServerSecret::new(KeyId::new("k1").unwrap(), &bytes).unwrap();
        let other = Keyring::new(other).for_run(&RunId::new("run-1").unwrap());
        prop_assert_eq!(refusal(verify_with(&good, &other, &binding)), "tag");
    }

    #[test]
    fn one_changed_bit_in_the_key_id_or_run_is_a_refusal(
        id in "[a-o]{1,8}", run in "[a-o]{1,8}", at in any::<prop::sample::Index>(), bit in 0..4_u8,
    ) {
        let flip = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            String::from_utf8(bytes).unwrap()
        };
        let good = mint(&run_keys(&id, 1, &run), &full("c"), &terms("t"), DEFAULT_TTL_CAP).unwrap();
        prop_assert_eq!(refusal(verify_with(&good, &run_keys(&flip(&id), 1, &run), &full("c"))), "tag");
        prop_assert_eq!(refusal(verify_with(&good, &run_keys(&id, 1, &flip(&run)), &full("c"))), "tag");
    }

    #[test]
    fn one_changed_bit_in_any_bound_field_is_a_refusal(
        binding in any_binding(), field in 0..64_usize, bit in 0..4096_usize,
    ) {
        let good = minted(&binding, &terms("t"));
        if let Some(other) = change_bit(&binding, field, bit) {
            prop_assert_ne!(&other, &binding);
            prop_assert!(refusal(verify_with(&good, &keys(), &other)).starts_with("other-"));
            prop_assert_ne!(other.call_id == binding.call_id, other.act() == binding.act());
        }
    }

    #[test]
    fn two_calls_never_have_one_payload(one in any_binding(), two in any_binding()) {
        let sealed = |binding| payload(&minted(binding, &terms("t")));
        prop_assert_eq!(sealed(&one) == sealed(&two), one == two);
    }

    #[test]
    fn reading_any_text_as_a_token_never_panics(text in "(cs1)?\\PC{0,80}") {
        if let Ok(token) = text.parse::<ApprovalToken>() {
            prop_assert_eq!(refusal(check(&token, &full("c"))), "tag");
        }
    }

    #[test]
    fn verifying_any_sealed_bytes_never_panics(text in "\\PC{0,80}") {
        prop_assert_eq!(refusal(check(&forge(&text), &full("c"))), "payload");
    }
}
