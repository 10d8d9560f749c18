use super::*;
use crate::{
    DenialReason, EvidenceForm, EvidenceSummary, MemoryPendingApprovals, PendingApproval, PendingApprovals,
    PendingDenial, PendingError, PendingState, ProposalSummary, SessionKind,
};

const ARGS: &str = r#"{"amount":10,"lines":[1,2],"to":{"name":"bob"}}"#;

/// The full call, waiting for a minute from `requested` on.
fn pending(call: &str, requested: u64) -> PendingApproval {
    PendingApproval::new(full(call), &canonical(ARGS), at(requested), Millis::from_secs(60)).unwrap()
}

/// Another act for each number, and another session for every 64.
fn numbered(n: u64, requested: u64) -> PendingApproval {
    in_session(n, &format!("s-{}", n / 64), requested)
}

fn in_session(n: u64, session: &str, requested: u64) -> PendingApproval {
    let session = SessionId::new(session).unwrap();
    let call = full(&format!("c{n}")).registry_version(n).session(session);
    PendingApproval::new(call, &canonical(ARGS), at(requested), Millis::from_secs(60)).unwrap()
}

fn code<T>(result: Result<T, PendingError>) -> &'static str {
    result.err().map_or("ok", |error| error.code())
}

fn id(text: &str) -> CallId {
    CallId::new(text).unwrap()
}

fn olga() -> OperatorId {
    OperatorId::new("olga").unwrap()
}

/// Id and operator of a denial.
fn who(denial: PendingDenial) -> (CallId, OperatorId) {
    (denial.id, denial.by)
}

fn waiting(store: &dyn PendingApprovals, now: u64) -> Vec<String> {
    store.list(at(now)).unwrap().iter().map(|pending| pending.id().as_str().to_owned()).collect()
}

#[test]
fn arguments_must_match_the_binding() {
    let new = |json: &str, ttl| PendingApproval::new(full("c"), &canonical(json), at(0), ttl);
    let minute = Millis::from_secs(60);
    assert_eq!(new(ARGS, minute).unwrap().args(), ARGS);
    assert_eq!(code(new(r#"{"amount":11}"#, minute)), "PENDING_ARGS");
    assert_eq!(code(new(ARGS, Millis::ZERO)), "PENDING_TTL");
    let other_recipe = read(ARGS.as_bytes(), Recipe::Rfc8785, &Limits::default()).unwrap();
    assert_eq!(code(PendingApproval::new(full("c"), &other_recipe, at(0), minute)), "PENDING_ARGS");
    let last = at((1 << 53) - 1);
    assert_eq!(code(PendingApproval::new(full("c"), &canonical(ARGS), last, minute)), "PENDING_TTL");
}

#[test]
fn a_pending_approval_is_read_through_the_same_checks() {
    let json = serde_json::to_string(&pending("c", 1_000)).unwrap();
    assert_eq!(serde_json::from_str::<PendingApproval>(&json).unwrap(), pending("c", 1_000));
    let ending = pending("c", 1_000).session_end(at(90_000));
    let of_ending = serde_json::to_string(&ending).unwrap();
    assert_eq!(serde_json::from_str::<PendingApproval>(&of_ending).unwrap(), ending);
    assert_eq!((pending("c", 1_000).denied_until(), ending.denied_until()), (at(61_000), at(90_000)));
    assert_eq!(pending("c", 1_000).session_end(at(9)).denied_until(), at(61_000));
    for bad in [
        json.replace(r#"\"amount\":10"#, r#"\"amount\":11"#),
        json.replace(r#"{\"amount\":10"#, r#"{ \"amount\":10"#),
        json.replace(r#"\"amount\":10"#, r#"\"amount\":10.0"#),
        json.replace(r#""expires":61000"#, r#""expires":1000"#),
        json.replacen('{', r#"{"extra":1,"#, 1),
        json.replace(r#""requested":1000,"#, ""),
        json.replacen('{', r#"{"session_ends":null,"#, 1),
    ] {
        assert_ne!(bad, json);
        assert!(serde_json::from_str::<PendingApproval>(&bad).is_err(), "{bad}");
    }
}

fn summary() -> ProposalSummary {
    let digest = Digest::of(b"invoice");
    ProposalSummary::new("strict", "pay bob")
        .impact("money")
        .claim("due", ["a", "b"])
        .evidence(EvidenceSummary::signature("a", digest, "finance-1"))
        .evidence(EvidenceSummary::file("b", digest, true))
        .evidence(EvidenceSummary::unverified("c", EvidenceForm::Hash))
}

#[test]
fn pending_approval_keeps_its_proposal_summary() {
    let asked = pending("c", 1_000).summary(summary());
    let json = serde_json::to_string(&asked).unwrap();
    let read: PendingApproval = serde_json::from_str(&json).unwrap();
    assert_eq!((read.proposal(), &read), (Some(&summary()), &asked));
    assert_eq!(read.binding().act(), pending("c", 1_000).binding().act());
    // As stored by a version without proposals.
    let older = serde_json::to_string(&pending("c", 1_000)).unwrap();
    assert!(!older.contains("proposal"));
    assert_eq!(serde_json::from_str::<PendingApproval>(&older).unwrap().proposal(), None);
    for bad in [
        json.replace("pay bob", &"x".repeat(500)),
        json.replace(r#""due""#, &format!("{:?}", "x".repeat(500))),
        json.replace("finance-1", &"x".repeat(100)),
        json.replace(r#"["a","b"]"#, &format!("{:?}", ["a"; 9])),
        json.replace(r#""intent":"#, r#""more":1,"intent":"#),
    ] {
        assert_ne!(bad, json);
        assert!(serde_json::from_str::<PendingApproval>(&bad).is_err(), "{bad}");
    }
}

#[test]
fn a_summary_of_the_largest_proposal_is_bounded() {
    let long = "\u{e9}".repeat(40_000);
    let mut summary = ProposalSummary::new("strict", &long).refused("PIC_EVIDENCE_FAILED");
    for _ in 0..64 {
        summary = summary
            .claim(&long, std::iter::repeat_n(long.as_str(), 64))
            .evidence(EvidenceSummary::signature(&long, Digest::of(b""), &long));
    }
    assert_eq!((summary.claims().len(), summary.claims_omitted()), (16, 48));
    assert_eq!((summary.claims()[0].evidence().len(), summary.claims()[0].omitted()), (8, 56));
    assert_eq!((summary.evidence_entries().len(), summary.evidence_omitted()), (32, 32));
    assert_eq!(summary.intent(), format!("{}\u{2026}", "\u{e9}".repeat(200)));
    let json = serde_json::to_string(&summary).unwrap();
    assert!(json.len() <= 32 * 1024, "{}", json.len());
    assert_eq!(serde_json::from_str::<ProposalSummary>(&json).unwrap(), summary);
}

#[test]
fn a_pending_approval_is_printed_without_its_arguments() {
    let shown = format!("{:?}", pending("c", 0).summary(summary()));
    assert!(!shown.contains("amount") && !shown.contains("bob"));
}

#[test]
fn a_call_is_asked_for_approved_retried_and_used_once() {
    let store = MemoryPendingApprovals::new();
    assert_eq!(store.request(&pending("c", 1_000_000)).unwrap(), id("c"));
    assert!(store.find_approved(&full("retry"), at(1_000_000)).unwrap().is_none());
    let (shown, state) = store.get(&id("c")).unwrap().unwrap();
    assert!(matches!(state, PendingState::Waiting));
    let token = mint(&keys(), shown.binding(), &terms("t"), DEFAULT_TTL_CAP).unwrap();
    store.approve(&id("c"), &token, at(1_000_000)).unwrap();
    assert!(waiting(&store, 1_000_000).is_empty());
    let (found, left) = store.find_approved(&full("retry"), at(1_000_001)).unwrap().unwrap();
    assert_eq!((found.as_str(), left.as_str()), ("c", token.as_str()));
    assert!(check(&left, &full("c")).is_ok());
    store.mark_used(&found).unwrap();
    assert!(store.find_approved(&full("retry"), at(1_000_001)).unwrap().is_none());
    assert!(matches!(store.get(&found).unwrap(), Some((_, PendingState::Used))));
    assert_eq!(code(store.mark_used(&found)), "PENDING_DECIDED");
}

#[test]
fn retries_of_one_act_do_not_pile_up() {
    let store = MemoryPendingApprovals::new();
    for call in ["a", "b", "c"] {
        assert_eq!(store.request(&pending(call, 1_000)).unwrap(), id("a"));
    }
    assert_eq!(waiting(&store, 1_000), ["a"]);
    // An approved and unused question is still open.
    store.approve(&id("a"), &token("a", "t"), at(1_000)).unwrap();
    assert_eq!(store.request(&pending("d", 1_000)).unwrap(), id("a"));
    // After use, the same act is a new question.
    store.mark_used(&id("a")).unwrap();
    assert_eq!(store.request(&pending("e", 1_000)).unwrap(), id("e"));
    assert_eq!(code(store.request(&numbered(1, 1_000))), "ok");
}

#[test]
fn an_id_that_another_act_has_is_refused() {
    let store = MemoryPendingApprovals::new();
    store.request(&pending("c", 1_000)).unwrap();
    let other = full("c").registry_version(8);
    let other = PendingApproval::new(other, &canonical(ARGS), at(1_000), Millis::from_secs(60)).unwrap();
    assert_eq!(code(store.request(&other)), "PENDING_CONFLICT");
}

#[test]
fn denying_one_of_several_leaves_the_others() {
    let store = MemoryPendingApprovals::new();
    for n in 1..=3 {
        store.request(&numbered(n, 1_000)).unwrap();
    }
    store.deny(&id("c2"), &olga()).unwrap();
    assert_eq!(waiting(&store, 1_000), ["c1", "c3"]);
    assert_eq!(code(store.approve(&id("c2"), &token("c2", "t"), at(1_000))), "PENDING_DECIDED");
    assert_eq!(code(store.deny(&id("c2"), &olga())), "PENDING_DECIDED");
    assert_eq!(code(store.approve(&id("c1"), &token("c1", "t"), at(1_000))), "ok");
    // An unused approval can be denied.
    store.deny(&id("c1"), &olga()).unwrap();
    assert!(store.find_approved(numbered(1, 0).binding(), at(1_000)).unwrap().is_none());
}

#[test]
fn an_expired_question_is_neither_listed_nor_approved() {
    let store = MemoryPendingApprovals::new();
    store.request(&numbered(1, 1_000)).unwrap();
    store.request(&numbered(2, 1_000)).unwrap();
    store.approve(&id("c1"), &token("c1", "t"), at(60_999)).unwrap();
    assert_eq!(waiting(&store, 60_999), ["c2"]);
    assert!(waiting(&store, 61_000).is_empty());
    assert_eq!(code(store.approve(&id("c2"), &token("c2", "t"), at(61_000))), "PENDING_EXPIRED");
    assert!(store.find_approved(numbered(2, 0).binding(), at(61_000)).unwrap().is_none());
    assert_eq!(code(store.approve(&id("none"), &token("c", "t"), at(1_000))), "PENDING_UNKNOWN");
    assert_eq!(code(store.deny(&id("none"), &olga())), "PENDING_UNKNOWN");
    assert_eq!(code(store.mark_used(&id("none"))), "PENDING_UNKNOWN");
}

#[test]
fn at_most_1024_questions_are_open() {
    let store = MemoryPendingApprovals::new();
    for n in 0..1_024 {
        store.request(&numbered(n, 1_000)).unwrap();
    }
    for n in 1_024..1_030 {
        assert_eq!(code(store.request(&numbered(n, 1_000))), "PENDING_FULL");
    }
    assert_eq!(code(store.request(&numbered(5, 1_000))), "ok");
    // Expired questions make room; only the newest are kept.
    for n in 2_000..2_010 {
        assert_eq!(code(store.request(&numbered(n, 61_000))), "ok");
    }
    assert!(store.get(&id("c0")).unwrap().is_none());
    assert!(store.get(&id("c1023")).unwrap().is_some());
    assert_eq!(waiting(&store, 61_000).len(), 10);
}

#[test]
fn session_cannot_exceed_its_share() {
    let store = MemoryPendingApprovals::new();
    let ask = |n, session: &str, requested| code(store.request(&in_session(n, session, requested)));
    for n in 0..64 {
        assert_eq!(ask(n, "eve", 1_000), "ok");
    }
    assert_eq!(ask(100, "eve", 1_000), "PENDING_FULL");
    // An open question takes no more room.
    assert_eq!(ask(5, "eve", 1_000), "ok");
    // Another agent or principal in the session counts under the session.
    let disguised = in_session(101, "eve", 1_000).binding().clone().agent(AgentId::new("other").unwrap());
    let ttl = Millis::from_secs(60);
    let disguised = PendingApproval::new(disguised, &canonical(ARGS), at(1_000), ttl).unwrap();
    assert_eq!(code(store.request(&disguised)), "PENDING_FULL");
    assert_eq!(ask(200, "ada", 1_000), "ok");
    // Decided and expired questions make room.
    store.approve(&id("c0"), &token("c0", "t"), at(1_000)).unwrap();
    assert_eq!(ask(102, "eve", 1_000), "ok");
    assert_eq!(ask(103, "eve", 1_000), "PENDING_FULL");
    // A denied question keeps its place while the denial is in force.
    store.deny(&id("c1"), &olga()).unwrap();
    assert_eq!(ask(103, "eve", 1_000), "PENDING_FULL");
    assert_eq!(ask(104, "ada", 1_000), "ok");
    assert_eq!(ask(103, "eve", 61_000), "ok");
}

#[test]
fn sixty_four_denials_end_a_sessions_questions() {
    let store = MemoryPendingApprovals::new();
    let ask = |n: u64, session: &str, requested: u64| {
        store.request(&in_session(n, session, requested).session_end(at(3_600_000)))
    };
    for n in 0..64 {
        // Past the expiry of each question.
        let asked = ask(n, "eve", 1_000 + n * 40_000).unwrap();
        store.deny(&asked, &olga()).unwrap();
    }
    assert_eq!(code(ask(64, "eve", 3_599_999)), "PENDING_FULL");
    assert_eq!(code(ask(65, "ada", 3_599_999)), "ok");
    assert_eq!(code(ask(64, "eve", 3_600_000)), "ok");
}

#[test]
fn denial_lasts_until_the_session_ends() {
    let store = MemoryPendingApprovals::new();
    let ask = |call: &str, requested| store.request(&pending(call, requested).session_end(at(90_000)));
    let denied = |now| store.find_denied(&full("any"), at(now)).unwrap().map(who);
    ask("a", 1_000).unwrap();
    assert_eq!(denied(1_000), None);
    store.deny(&id("a"), &olga()).unwrap();
    assert_eq!(denied(1_000), Some((id("a"), olga())));
    for call in ["a", "b"] {
        assert_eq!(code(ask(call, 1_000)), "PENDING_DENIED", "{call}");
        assert_eq!(code(ask(call, 89_999)), "PENDING_DENIED", "{call}, after the question lapsed");
    }
    assert!(waiting(&store, 1_000).is_empty());
    // Another act is not denied.
    assert_eq!(store.find_denied(&full("any").registry_version(8), at(1_000)).unwrap().map(who), None);
    assert_eq!((denied(89_999), denied(90_000)), (Some((id("a"), olga())), None));
    assert_eq!(ask("b", 90_000).unwrap(), id("b"));
    assert_eq!(waiting(&store, 90_000), ["b"]);
}

#[test]
fn denial_outlives_purged_questions() {
    let store = MemoryPendingApprovals::new();
    let first = numbered(0, 1_000).session_end(at(1_000_000));
    store.request(&first).unwrap();
    store.deny(&id("c0"), &olga()).unwrap();
    // Enough expired questions of other sessions to purge every old one.
    for n in 64..1_064 {
        store.request(&numbered(n, 1_000 + n * 100)).unwrap();
    }
    assert!(store.get(&id("c0")).unwrap().is_none());
    assert_eq!(store.find_denied(first.binding(), at(999_999)).unwrap().map(who), Some((id("c0"), olga())));
    assert_eq!(code(store.request(&numbered(0, 200_000))), "PENDING_DENIED");
}

#[test]
fn late_denial_covers_every_question_of_the_act() {
    let store = MemoryPendingApprovals::new();
    let ask = |call, requested| store.request(&long_pending(call, requested).session_end(at(9_000_000)));
    ask("a", 1_000).unwrap();
    // The first has expired unanswered, the second is approved.
    ask("b", 1_000_000).unwrap();
    store.approve(&id("b"), &token("b", "t"), at(1_000_000)).unwrap();
    store.deny(&id("a"), &olga()).unwrap();
    assert!(store.find_approved(&full("retry"), at(1_000_001)).unwrap().is_none());
    assert!(matches!(store.get(&id("b")).unwrap(), Some((_, PendingState::Denied))));
    assert_eq!(code(store.deny(&id("b"), &olga())), "PENDING_DECIDED");
    assert_eq!(code(store.mark_used(&id("b"))), "PENDING_DECIDED");
    assert_eq!(code(ask("c", 1_000_001)), "PENDING_DENIED");
}

#[test]
fn questions_without_a_session_count_under_their_principal() {
    let store = MemoryPendingApprovals::new();
    let ask = |n: u64, principal: &str| {
        let args = canonical("{}");
        let (tool, by) = (ToolId::new("desk", "refund").unwrap(), Principal::new(principal).unwrap());
        let call = CallFacts::new(id(&format!("c{n}")), tool, args.digest(), Recipe::Jcs1, by);
        let call = call.registry_version(n);
        code(store.request(&PendingApproval::new(call, &args, at(0), Millis::from_secs(60)).unwrap()))
    };
    for n in 0..64 {
        assert_eq!(ask(n, "eve"), "ok");
    }
    assert_eq!(ask(64, "eve"), "PENDING_FULL");
    assert_eq!(ask(65, "ada"), "ok");
    // A session named like the principal is another asker.
    assert_eq!(code(store.request(&in_session(66, "eve", 0))), "ok");
}

/// Requests about a million bytes of arguments in a session.
fn ask_about_a_million(store: &dyn PendingApprovals, n: u64, session: &str, requested: u64) -> &'static str {
    let big = canonical(&format!("\"{}\"", "x".repeat(1_000_000)));
    let tool = ToolId::new("desk", "write").unwrap();
    let by = Principal::new("alice").unwrap();
    let call = CallFacts::new(id(&format!("c{n}")), tool, big.digest(), Recipe::Jcs1, by);
    let call = call.registry_version(n).session(SessionId::new(session).unwrap());
    code(store.request(&PendingApproval::new(call, &big, at(requested), Millis::from_secs(60)).unwrap()))
}

#[test]
fn arguments_of_all_questions_are_bounded() {
    let store = MemoryPendingApprovals::new();
    let ask = |n: u64, requested| ask_about_a_million(&store, n, &format!("s-{n}"), requested);
    let accepted = (0..100).filter(|n| ask(*n, 0) == "ok").count();
    assert_eq!(accepted, 67);
    assert_eq!(ask(100, 0), "PENDING_FULL");
    assert_eq!(ask(101, 60_000), "ok");
}

#[test]
fn arguments_of_one_session_are_bounded() {
    let store = MemoryPendingApprovals::new();
    let accepted = (0..10).filter(|n| ask_about_a_million(&store, *n, "eve", 0) == "ok").count();
    assert_eq!(accepted, 4);
    assert_eq!(ask_about_a_million(&store, 20, "ada", 0), "ok");
    store.deny(&id("c0"), &olga()).unwrap();
    assert_eq!(ask_about_a_million(&store, 21, "eve", 0), "ok");
}

/// The full call, waiting for ten minutes from the issue of the one-minute [`token`] on.
fn long_pending(call: &str, requested: u64) -> PendingApproval {
    PendingApproval::new(full(call), &canonical(ARGS), at(requested), Millis::from_secs(600)).unwrap()
}

#[test]
fn expired_approval_frees_its_act() {
    let store = MemoryPendingApprovals::new();
    store.request(&long_pending("a", 1_000_000)).unwrap();
    store.approve(&id("a"), &token("a", "t1"), at(1_000_000)).unwrap();
    assert!(store.find_approved(&full("retry"), at(1_059_999)).unwrap().is_some());
    assert_eq!(store.request(&long_pending("b", 1_059_999)).unwrap(), id("a"));
    assert!(store.find_approved(&full("retry"), at(1_060_000)).unwrap().is_none());
    // Under a new id: the old one was answered.
    assert_eq!(code(store.request(&long_pending("a", 1_060_000))), "PENDING_CONFLICT");
    assert_eq!(store.request(&long_pending("b", 1_060_000)).unwrap(), id("b"));
    assert_eq!(waiting(&store, 1_060_000), ["b"]);
    let terms = terms_of("t2", "olga", 1_060_000, 60);
    let second = minted(&full("b"), &terms);
    assert_eq!(code(store.approve(&id("a"), &second, at(1_060_000))), "PENDING_DECIDED");
    store.approve(&id("b"), &second, at(1_060_000)).unwrap();
    let (found, left) = store.find_approved(&full("retry"), at(1_060_000)).unwrap().unwrap();
    assert_eq!((found, left.as_str()), (id("b"), second.as_str()));
    // A holder of the old token can still mark it used.
    assert_eq!(code(store.mark_used(&id("a"))), "ok");
}

#[test]
fn late_approval_lasts_until_its_token_expires() {
    let store = MemoryPendingApprovals::new();
    store.request(&pending("a", 941_000)).unwrap();
    store.approve(&id("a"), &token("a", "t"), at(1_000_999)).unwrap();
    // The question expires at 1,001,000, the token at 1,060,000.
    assert!(store.find_approved(&full("retry"), at(1_001_000)).unwrap().is_some());
    assert!(store.find_approved(&full("retry"), at(1_059_999)).unwrap().is_some());
    assert_eq!(store.request(&pending("b", 1_059_999)).unwrap(), id("a"));
    assert!(store.find_approved(&full("retry"), at(1_060_000)).unwrap().is_none());
    assert_eq!(store.request(&pending("b", 1_060_000)).unwrap(), id("b"));
}

#[test]
fn token_without_future_expiry_is_not_left() {
    let store = MemoryPendingApprovals::new();
    store.request(&long_pending("a", 1_000_000)).unwrap();
    assert_eq!(code(store.approve(&id("a"), &token("a", "t"), at(1_060_000))), "PENDING_EXPIRED");
    for payload in ["", "{}", r#"{"expires":9000000000}"#, "no json"] {
        assert_eq!(
            code(store.approve(&id("a"), &forge(payload), at(1_000_000))),
            "PENDING_TOKEN",
            "{payload}"
        );
    }
    assert_eq!(waiting(&store, 1_000_000), ["a"]);
    assert_eq!(code(store.approve(&id("a"), &token("a", "t"), at(1_059_999))), "ok");
}

fn session_1() -> SessionId {
    SessionId::new("s-1").unwrap()
}

#[test]
fn ended_session_withdraws_its_questions() {
    let store = MemoryPendingApprovals::new();
    let asked = pending("a", 1_000);
    store.note_alive(&session_1(), SessionKind::Single, at(1_000)).unwrap();
    store.request(&asked).unwrap();
    assert_eq!(waiting(&store, 1_000), ["a"]);
    store.end_session(&session_1()).unwrap();
    assert!(waiting(&store, 1_001).is_empty());
    assert_eq!(store.list_ended(at(1_001)).unwrap(), std::slice::from_ref(&asked));
    assert_eq!(code(store.approve(&id("a"), &token("a", "t"), at(1_001))), "SESSION_ENDED");
    // A late sign of life does not revive it, and a denial is accepted.
    store.note_alive(&session_1(), SessionKind::Single, at(1_002)).unwrap();
    assert!(store.has_session_ended(&asked, at(1_002)).unwrap());
    assert_eq!(code(store.deny(&id("a"), &olga())), "ok");
}

#[test]
fn a_session_without_a_sign_of_life_has_ended() {
    let store = MemoryPendingApprovals::new();
    store.note_alive(&session_1(), SessionKind::Single, at(1_000)).unwrap();
    store.request(&pending("a", 1_000)).unwrap();
    assert_eq!(waiting(&store, 15_999), ["a"]);
    assert!(waiting(&store, 16_000).is_empty());
    assert_eq!(code(store.approve(&id("a"), &token("a", "t"), at(16_000))), "SESSION_ENDED");
    // The gateway was delayed, not killed.
    store.note_alive(&session_1(), SessionKind::Single, at(16_500)).unwrap();
    assert_eq!(waiting(&store, 16_500), ["a"]);
    assert_eq!(code(store.approve(&id("a"), &token("a", "t"), at(16_500))), "ok");
}

#[test]
fn a_named_session_keeps_its_questions() {
    let store = MemoryPendingApprovals::new();
    store.note_alive(&session_1(), SessionKind::Named, at(1_000)).unwrap();
    store.request(&pending("a", 1_000)).unwrap();
    store.end_session(&session_1()).unwrap();
    assert_eq!(waiting(&store, 59_000), ["a"]);
    assert_eq!(code(store.approve(&id("a"), &token("a", "t"), at(59_000))), "ok");
}

#[test]
fn withdrawn_questions_take_no_room() {
    let store = MemoryPendingApprovals::new();
    for n in 0..16 {
        let session = SessionId::new(&format!("s-{n}")).unwrap();
        store.note_alive(&session, SessionKind::Single, at(1_000)).unwrap();
    }
    (0..1_024).for_each(|n| drop(store.request(&numbered(n, 1_000)).unwrap()));
    assert_eq!(code(store.request(&numbered(1_024, 1_000))), "PENDING_FULL");
    store.end_session(&SessionId::new("s-3").unwrap()).unwrap();
    assert_eq!(code(store.request(&numbered(1_024, 1_000))), "ok");
}

#[test]
fn a_reason_has_one_to_two_hundred_bytes() {
    for (text, fits) in [("", false), ("x", true), (&*"x".repeat(200), true), (&*"\u{e9}".repeat(101), false)]
    {
        assert_eq!(DenialReason::new(text).is_ok(), fits, "{text}");
    }
    let store = MemoryPendingApprovals::new();
    let reason = DenialReason::new("not before Monday").unwrap();
    store.request(&pending("a", 1_000)).unwrap();
    store.deny_because(&id("a"), &olga(), Some(&reason)).unwrap();
    let denial = store.find_denied(&full("any"), at(1_000)).unwrap().unwrap();
    assert_eq!(denial.reason, Some(reason));
}
