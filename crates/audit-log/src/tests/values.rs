use countersign_core::{Digest, OperatorId, Principal, RequestId, SessionId, TokenId};
use proptest::prelude::*;

use super::{call_record, hostile};
use crate::line::parse_line;
use crate::line::{record_body, record_prefix};
use crate::segment::MAX_LINE;
use crate::{
    CallRecord, CoApproval, Escaped, EvidenceRecord, ProposalRecord, Record, RecordedTool, RecordedValues,
};

fn line(record: &Record) -> Vec<u8> {
    let (mut line, mut body) = (Vec::new(), Vec::new());
    record_prefix(u64::MAX, &mut line);
    record_body(record, &mut body).unwrap();
    [line, body].concat()
}

fn is_cut(text: &str) -> bool {
    text.ends_with('\u{2026}')
}

/// Builds a decision in which every member except the values is as long as possible.
fn longest() -> CallRecord {
    let (id, text) = ("\"".repeat(256), "\"".repeat(10_000));
    let hostile = hostile(&text).into_iter().find_map(|record| {
        let Record::Decision(call) = record else { return None };
        Some(call)
    });
    let mut call = hostile.unwrap();
    call.session = SessionId::new(&id).unwrap();
    call.agent = id.parse().unwrap();
    call.principal = Principal::new(&id).unwrap();
    call.request_id = Some(RequestId::new(&id).unwrap());
    call.approval = Some(TokenId::new(&id).unwrap());
    call.approver = Some(OperatorId::new(&id).unwrap());
    // A list of approvers has names of at most 64 bytes, and a call needs at most four of them.
    let other = CoApproval::new(TokenId::new(&id).unwrap(), OperatorId::new(id.get(..64).unwrap()).unwrap());
    call.co_approvals = vec![other; 3];
    call.registry_version = u64::MAX;
    let mut proposal = ProposalRecord::new(&text);
    proposal.digest = call.definition;
    proposal.intent = call.definition;
    proposal.impact = Some(Escaped::new(&text));
    let signed = EvidenceRecord::signature(&text, Digest::of(b"s"), &text);
    proposal.set_evidence(std::iter::repeat_n(signed, 100));
    call.proposal = Some(Box::new(proposal));
    call.tool = RecordedTool::new(&text, &text);
    call
}

#[test]
fn no_values_make_a_line_longer_than_a_log_takes() {
    for filler in ["\"", "\\", "a", "\n", "\u{1f600}", "\u{2026}"] {
        let (pointer, value) = (filler.repeat(300), filler.repeat(1 << 20));
        for pointer in ["", &pointer] {
            let mut call = longest();
            call.values = RecordedValues::new(std::iter::repeat_n((pointer, &value), 40));
            assert_eq!(call.values.len(), 16);
            let record = Record::Decision(call);
            let line = line(&record);
            assert!(line.len() < MAX_LINE, "{} bytes", line.len());
            assert_eq!(parse_line(&line), Some((u64::MAX, record)));
        }
    }
}

#[test]
fn first_recorded_values_keep_their_full_length() {
    let values = RecordedValues::new((0..16).map(|n| (format!("/{n}"), "x".repeat(4_096))));
    let whole = values.iter().filter(|one| one.value.unescape().is_some()).count();
    assert_eq!(whole, 3);
    assert!(values.iter().skip(whole).all(|one| is_cut(one.value.as_str())));
    assert_eq!(values.get("/3").unwrap().as_str().len(), 3_606);
    assert_eq!(values.get("/15").unwrap().as_str(), "\u{2026}");
    // A short value still has room after long ones.
    let values = RecordedValues::new([("/a", "x".repeat(9_000)), ("/b", "7".to_owned())]);
    assert_eq!(values.get("/a").unwrap().as_str().len(), 4_096);
    assert_eq!(values.get("/b").unwrap().unescape().as_deref(), Some("7"));
}

#[test]
fn cut_pointer_matches_no_other_pointer() {
    let long = |end: &str| format!("/{}{end}", "x".repeat(300));
    let values = RecordedValues::new([(long("a"), "1"), ("/b".to_owned(), "2")]);
    assert_eq!(values.len(), 2);
    assert_eq!((values.get(&long("a")), values.get(&long("b"))), (None, None));
    assert_eq!(values.get("/b").unwrap().as_str(), "2");
}

#[test]
fn more_values_than_a_record_may_hold_are_none_that_is_read() {
    let one = |value: &str| format!(r#"{{"pointer":"","value":"{value}"}}"#);
    let list = |values: Vec<String>| format!("[{}]", values.join(","));
    let read = |json: &str| serde_json::from_str::<RecordedValues>(json).is_ok();
    assert!(read(&list(vec![one("1"); 16])));
    assert!(!read(&list(vec![one("1"); 17])));
    assert!(read(&list(vec![one(&"x".repeat(4_000)); 4])));
    assert!(!read(&list(vec![one(&"x".repeat(4_096)); 4])));
    assert!(!read(r#"[{"pointer":"","value":"","more":1}]"#));
    assert!(!read(r#"[{"pointer":""}]"#));
}

#[test]
fn line_without_values_has_no_values_member() {
    let text = String::from_utf8(line(&Record::Decision(call_record("c")))).unwrap();
    assert!(!text.contains("values"), "{text}");
    let mut call = call_record("c");
    call.values = RecordedValues::new([("/to", r#""bob""#)]);
    let text = String::from_utf8(line(&Record::Decision(call))).unwrap();
    assert!(text.contains(r#","values":[{"pointer":"/to","value":"\"bob\""}],"verdict""#), "{text}");
}

#[test]
fn an_escaped_text_is_read_back_unless_some_of_it_is_missing() {
    let back = |text: &str| Escaped::<40>::new(text).unescape();
    for text in
        ["", "plain", "a\\b\n\u{202e}\u{1b}[2J", "\u{2026}middle", "\\u{a}", "ends\u{2026}", "\u{2026}"]
    {
        assert_eq!(back(text).as_deref(), Some(text), "{text:?}");
    }
    assert_eq!(back(&"x".repeat(41)), None);
    assert_eq!(back(&format!("{}\u{2026}", "x".repeat(36))), None, "the spelled-out mark has no room");
    assert_eq!(Escaped::<2>::new("abc").unescape(), None);
    assert_eq!(Escaped::<2>::new("ab").unescape(), None, "where no mark fits, nothing tells what was cut");
}

#[test]
fn malformed_escape_is_not_unescaped() {
    for text in [
        r"\",
        r"a\n",
        r"\u{}",
        r"\u{zz}",
        r"\u{41}",
        r"\u{0a}",
        r"\u{+a}",
        r"\u{A}",
        r"\u{110000}",
        r"\u{d800}",
        r"\u{a",
    ] {
        let json = serde_json::to_string(text).unwrap();
        let escaped: Escaped<40> = serde_json::from_str(&json).unwrap();
        assert_eq!(escaped.unescape(), None, "{text}");
    }
    let ellipsis: Escaped<40> = serde_json::from_str("\"whole\u{2026}\"").unwrap();
    assert_eq!(ellipsis.unescape(), None, "it may have been cut");
}

proptest! {
    #[test]
    fn any_text_is_read_back_as_it_was_or_not_at_all(text in "[a\\\\\u{2026}\u{202e}\"\n\u{1f600}]{0,24}") {
        let escaped = Escaped::<40>::new(&text);
        match escaped.unescape() {
            Some(back) => prop_assert_eq!(&back, &text),
            None => prop_assert!(is_cut(escaped.as_str())),
        }
        if Escaped::<1024>::new(&text).as_str().len() <= 40 {
            prop_assert!(escaped.unescape().is_some());
        }
    }

    #[test]
    fn any_values_fit_and_are_read_back_as_they_are(
        values in proptest::collection::vec(("[a/\"\\\\\n]{0,300}", "[a\"\\\\\n\u{2026}]{0,6000}"), 0..20)
    ) {
        let kept = RecordedValues::new(values.iter().map(|(pointer, value)| (pointer, value)));
        prop_assert_eq!(kept.len(), values.len().min(16));
        let json = serde_json::to_string(&kept).unwrap();
        prop_assert!(json.len() <= 16 * 1024 + 1);
        prop_assert_eq!(&serde_json::from_str::<RecordedValues>(&json).unwrap(), &kept);
        for (kept, (_, value)) in kept.iter().zip(&values) {
            match kept.value.unescape() {
                Some(back) => prop_assert_eq!(&back, value),
                None => prop_assert!(is_cut(kept.value.as_str())),
            }
        }
    }
}
