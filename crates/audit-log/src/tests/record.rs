use countersign_core::{Digest, ImpactClass, Recipe, ToolId, is_hidden};
use proptest::prelude::*;

use super::hostile;
use crate::line::{WireLine, parse_line};
use crate::line::{record_body, record_prefix};
use crate::{
    AuditError, AuditSink, CallOrigin, CallRecord, CallRecordRef, ClaimsRecord, DecisionLine, Escaped,
    EscapedRef, EvidenceKind, EvidenceRecord, KnownTool, MemorySink, OriginRef, ProposalRecord, Record,
    ToolRef,
};

fn line(record: &crate::Record) -> String {
    serde_json::to_string(&WireLine { seq: 7, record }).unwrap()
}

/// Returns the line as sinks write it, by hand.
fn written(seq: u64, record: &crate::Record) -> String {
    let (mut line, mut body) = (Vec::new(), Vec::new());
    record_prefix(seq, &mut line);
    record_body(record, &mut body).unwrap();
    String::from_utf8([line, body].concat()).unwrap()
}

#[test]
fn written_lines_equal_those_that_serde_writes() {
    let mut all = hostile("a\"b\\c\n");
    all.extend([super::decision("c"), super::decision("")]);
    for member in [
        "request_id",
        "trace",
        "values",
        "narrowed",
        "definition",
        "args",
        "args_recipe",
        "impact",
        "code",
        "reason",
        "observed",
        "ask",
        "ask_restated",
        "plan",
        "plan_step",
        "approval",
        "approver",
        "co_approvals",
        "denied_by",
        "proposal",
        "duration_ms",
        "code",
        "by",
    ] {
        for record in hostile("x") {
            let mut value = serde_json::to_value(&record).unwrap();
            value.as_object_mut().unwrap().remove(member);
            // Some kinds require this member.
            all.extend(serde_json::from_value::<crate::Record>(value));
        }
    }
    for (verdict, outcome) in
        [("accept", "returned"), ("reject", "failed"), ("accept", "unknown"), ("accept", "not_run")]
    {
        // An answer has its own verdicts.
        for record in hostile("x").into_iter().filter(|record| !matches!(record, Record::Answer(_))) {
            let mut value = serde_json::to_value(&record).unwrap();
            for (name, to) in [("verdict", verdict), ("outcome", outcome)] {
                value.as_object_mut().unwrap().entry(name).and_modify(|old| *old = to.into());
            }
            all.push(serde_json::from_value(value).unwrap());
        }
    }
    for seq in [0, 1, 9, 10, 99, 100, 12_345_678_901, u64::MAX] {
        for record in &all {
            assert_eq!(written(seq, record), serde_json::to_string(&WireLine { seq, record }).unwrap());
        }
    }
}

/// The decisions among all hostile records, and two usual ones.
fn decisions(text: &str) -> Vec<CallRecord> {
    let all = hostile(text).into_iter().chain([super::decision("c"), super::decision(text)]);
    all.filter_map(|record| if let Record::Decision(call) = record { Some(call) } else { None }).collect()
}

#[test]
fn parts_written_once_make_the_same_line() {
    for text in ["x", "a\"b\\c\n", "\u{202e}\u{e9}", "ends\u{2026}"] {
        for mut call in decisions(text) {
            let tool = ToolId::new("desk", "mail/send.v2").unwrap();
            call.tool = (&tool).into();
            let whole = written(7, &Record::Decision(call.clone()));
            let CallRecord { session, agent, principal, .. } = call.clone();
            let (origin, tool) = (CallOrigin::new(session, agent, principal), KnownTool::new(&tool));
            let known = CallRecordRef {
                origin: OriginRef::Known(&origin),
                tool: ToolRef::Known(&tool),
                ..CallRecordRef::from(&call)
            };
            let line = DecisionLine::new(&known).unwrap();
            assert_eq!(format!("{{\"seq\":7{}", String::from_utf8_lossy(line.body())), whole);
            assert_eq!(DecisionLine::parse(line.body()), Some(call.clone()));
            assert_eq!(known.to_record(), call);
            assert_eq!(known.tool.names(), ("desk", "mail/send.v2"));
        }
    }
}

#[test]
fn only_a_text_that_needs_no_escape_is_borrowed() {
    for plain in ["", "x", "a \"b\"", "caf\u{e9}", "12345678"] {
        let borrowed = EscapedRef::<8>::plain(plain).unwrap();
        assert_eq!((borrowed.as_str(), borrowed.to_escaped()), (plain, Escaped::new(plain)));
    }
    for other in ["a\\b", "a\nb", "\u{202e}", "a\u{2026}", "123456789"] {
        assert!(EscapedRef::<8>::plain(other).is_none(), "{other:?}");
    }
}

#[test]
fn names_of_recipes_and_impacts_need_no_escape() {
    for recipe in Recipe::ALL {
        assert!(EscapedRef::<32>::plain(recipe.as_str()).is_some());
    }
    for impact in ImpactClass::ALL {
        assert!(EscapedRef::<32>::plain(impact.as_str()).is_some());
    }
}

#[test]
fn every_sink_keeps_a_written_decision_like_its_record() {
    /// Knows records alone.
    #[derive(Debug)]
    struct Wrapped(MemorySink);
    impl AuditSink for Wrapped {
        fn record(&self, record: &Record) -> Result<u64, AuditError> {
            self.0.record(record)
        }
    }
    let (of_records, of_lines, wrapped) = (MemorySink::new(), MemorySink::new(), Wrapped(MemorySink::new()));
    for call in ["x", "a\"b\\c\n"].into_iter().flat_map(decisions) {
        let borrowed = (&call).into();
        let line = DecisionLine::new(&borrowed).unwrap();
        let number = of_lines.record_decision(&line).unwrap();
        assert_eq!(wrapped.record_decision(&line).unwrap(), number);
        assert_eq!(of_records.record(&Record::Decision(call.clone())).unwrap(), number);
    }
    assert_eq!(of_lines.head(), of_records.head());
    assert_eq!(wrapped.0.head(), of_records.head());
    assert_eq!(of_lines.latest(), of_records.latest());
}

#[test]
fn record_with_hostile_text_stays_on_one_line() {
    for text in [
        "a\nb",
        "\r\n{\"seq\":9,\"type\":\"decision\"}\n",
        "\u{1b}[2J\u{1b}[1;1Hok",
        "\u{202e}txt.exe",
        "a\u{2028}b\u{2029}c\u{85}d",
        "\0\u{7f}\u{9b}31m",
        "\u{e0041}\u{200b}\u{feff}",
        "\\u{a}\\n\"}",
    ] {
        for record in hostile(text) {
            let line = line(&record);
            assert!(!line.chars().any(is_hidden), "{line}");
            assert_eq!(parse_line(line.as_bytes()), Some((7, record)), "{line}");
        }
    }
}

#[test]
fn a_megabyte_in_every_field_makes_a_short_line() {
    for filler in ["a", "\n", "\u{1f600}", "\\"] {
        for record in hostile(&filler.repeat(1 << 20)) {
            assert!(line(&record).len() < 1 << 16);
        }
    }
}

#[test]
fn claims_keep_thirty_two_names_and_count_the_others() {
    let claims = ClaimsRecord::new(Digest::of(b""), std::iter::repeat_n("money", 100));
    assert_eq!((claims.differing().len(), claims.omitted()), (32, 68));
    assert_eq!(claims.digest(), Digest::of(b""));
}

#[test]
fn proposal_keeps_sixty_four_pieces_of_evidence() {
    let mut proposal = ProposalRecord::new("strict");
    let digest = Digest::of(b"");
    proposal.set_evidence((0..100).map(|n| EvidenceRecord::signature(&n.to_string(), digest, "k")));
    assert_eq!((proposal.evidence().len(), proposal.omitted()), (64, 36));
    assert_eq!(proposal.evidence()[63].id.as_str(), "63");
    assert_eq!(proposal.evidence()[0].kind, EvidenceKind::Sig);
    proposal.set_evidence([EvidenceRecord::hash("invoice", digest)]);
    assert_eq!((proposal.evidence().len(), proposal.omitted()), (1, 0));
    let json = serde_json::to_string(&proposal).unwrap();
    let expected = format!(
        r#"{{"profile":"strict","evidence":[{{"id":"invoice","kind":"hash","digest":"{digest}"}}]}}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn who_signed_is_kept_whatever_stands_before_it() {
    let digest = Digest::of(b"");
    let files =
        |range: std::ops::Range<u32>| range.map(move |n| EvidenceRecord::hash(&n.to_string(), digest));
    let sig = |id| std::iter::once(EvidenceRecord::signature(id, digest, "k"));
    let mut proposal = ProposalRecord::new("strict");
    proposal.set_evidence(files(0..99).chain(sig("first")).chain(sig("second")));
    let ids: Vec<_> = proposal.evidence().iter().map(|piece| piece.id.as_str()).collect();
    assert_eq!((&ids[..3], ids.len(), proposal.omitted()), (&["first", "second", "0"][..], 64, 37));
    proposal.set_evidence(files(0..2).chain(sig("last")));
    let ids: Vec<_> = proposal.evidence().iter().map(|piece| piece.id.as_str()).collect();
    assert_eq!(ids, ["last", "0", "1"], "where there is room for all, too");
}

#[test]
fn line_from_before_proposals_round_trips() {
    let old = concat!(
        r#"{"seq":7,"type":"decision","time":1000,"session":"s1","agent":"support-bot","principal":"alice","#,
        r#""call_id":"c","tool":{"server":"desk","name":"search"},"verdict":"accept","registry_version":7}"#
    );
    let (sequence, record) = parse_line(old.as_bytes()).unwrap();
    let Record::Decision(call) = &record else { panic!("a decision") };
    assert_eq!((sequence, &call.proposal), (7, &None));
    assert_eq!(line(&record), old);
    let bare = old.replacen(
        r#""registry_version":7"#,
        r#""registry_version":7,"proposal":{"profile":"pic-0.9"}"#,
        1,
    );
    let (_, record) = parse_line(bare.as_bytes()).unwrap();
    assert_eq!(line(&record), bare);
    for bad in [r#"{}"#, r#"{"profile":"strict","more":1}"#, r#"{"profile":7}"#, r#"[]"#] {
        let bad = bare.replacen(r#"{"profile":"pic-0.9"}"#, bad, 1);
        assert_eq!(parse_line(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn an_unknown_missing_or_repeated_member_is_no_record() {
    for record in hostile("x") {
        let line = line(&record);
        assert!(parse_line(line.as_bytes()).is_some());
        let name = if line.contains("\"s1\"") { "s1" } else { "support-bot" };
        for bad in [
            line.replacen('{', "{\"extra\":1,", 1),
            line.replacen("\"time\":", "\"tome\":", 1),
            line.replacen("\"time\":", "\"time\":1,\"time\":", 1),
            line.replacen("\"seq\":7", "\"seq\":7,\"seq\":7", 1),
            line.replacen("\"seq\":7", "\"seq\":\"7\"", 1),
            line.replacen("\"type\":\"", "\"type\":\"x", 1),
            format!("{line} {{}}"),
            line.replacen(name, "s\\n1", 1),
        ] {
            assert_ne!(bad, line);
            assert_eq!(parse_line(bad.as_bytes()), None, "{bad}");
        }
    }
}

#[test]
fn a_text_that_was_not_escaped_is_no_field_of_a_record() {
    assert!(serde_json::from_str::<Escaped<8>>("\"12345678\"").is_ok());
    assert!(serde_json::from_str::<Escaped<8>>("\"123456789\"").is_err());
    assert!(serde_json::from_str::<Escaped<8>>("\"a\\nb\"").is_err());
    assert!(serde_json::from_str::<Escaped<8>>("\"a\u{202e}b\"").is_err());
}

#[test]
fn long_text_is_cut_between_escapes() {
    assert_eq!(Escaped::<8>::new("12345678").as_str(), "12345678");
    assert_eq!(Escaped::<8>::new("123456789").as_str(), "12345\u{2026}");
    assert_eq!(Escaped::<8>::new("1\n2").as_str(), "1\\u{a}2");
    assert_eq!(Escaped::<8>::new("1234\n").as_str(), "1234\u{2026}");
    assert_eq!(Escaped::<2>::new("123").as_str(), "");
    assert_eq!(Escaped::<8>::new("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}").as_str(), "\u{e9}\u{e9}\u{2026}");
}

proptest! {
    #[test]
    fn any_text_becomes_short_and_visible_and_is_read_back_as_it_is(text in any::<String>()) {
        let escaped = Escaped::<40>::new(&text);
        prop_assert!(escaped.as_str().len() <= 40);
        prop_assert!(!escaped.as_str().chars().any(is_hidden));
        let json = serde_json::to_string(&escaped).unwrap();
        prop_assert_eq!(serde_json::from_str::<Escaped<40>>(&json).unwrap(), escaped);
    }

    #[test]
    fn any_record_with_any_text_is_read_back_as_it_is(text in any::<String>()) {
        for record in hostile(&text) {
            prop_assert_eq!(written(7, &record), line(&record));
            prop_assert_eq!(parse_line(line(&record).as_bytes()), Some((7, record)));
        }
    }

    #[test]
    fn reading_any_bytes_as_a_line_never_panics(bytes in any::<Vec<u8>>()) {
        let _ = parse_line(&bytes);
    }
}
