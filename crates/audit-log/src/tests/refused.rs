use super::at;
use crate::*;
use countersign_core::{AgentId, SessionId};

fn sum(from: u64) -> RefusedRecord {
    RefusedRecord::new(SessionId::new("s1").unwrap(), Some(AgentId::new("bot").unwrap()), at(from))
}

fn row(code: usize, tool: usize) -> RefusedRow {
    RefusedRow {
        tool: Some(RecordedTool::new("desk", &format!("t{tool}"))),
        ..RefusedRow::new(format!("CODE_{code}").as_str())
    }
}

#[test]
fn rows_are_counted_by_code_and_tool_in_their_order() {
    let mut sum = sum(1);
    for (code, tool) in [(2, 1), (1, 1), (2, 1), (2, 2), (2, 1)] {
        sum.add(row(code, tool));
    }
    let rows: Vec<_> =
        sum.rows.iter().map(|r| (r.code.as_str(), r.tool.as_ref().unwrap().name.as_str(), r.count)).collect();
    assert_eq!(rows, [("CODE_2", "t1", 3), ("CODE_1", "t1", 1), ("CODE_2", "t2", 1)]);
    assert_eq!(sum.total(), 5);
}

#[test]
fn sum_of_many_tools_keeps_its_codes_and_leaves_out_tools() {
    let mut sum = sum(1);
    for n in 0..1_000 {
        sum.add(row(n % 5, n));
        assert!(sum.rows.len() <= 64);
    }
    assert_eq!(sum.total(), 1_000);
    for code in 0..5 {
        let code = format!("CODE_{code}");
        let of_code = sum.rows.iter().filter(|row| row.code.as_str() == code);
        assert_eq!(of_code.map(|row| row.count).sum::<u64>(), 200);
    }
}

#[test]
fn sixteen_made_up_names_are_kept() {
    let mut sum = sum(1);
    for n in 0..100 {
        sum.add_made_up(1, Some(format!("desk:{}", n / 2).as_str().into()));
    }
    assert_eq!((sum.made_up, sum.names.len()), (100, 16));
    assert_eq!(sum.names[15].as_str(), "desk:15");
}

#[test]
fn sum_that_is_recorded_twice_is_recognised() {
    let numbered = |number, from| RefusedRecord { number, ..sum(from) };
    let mut seen = SeenSums::new();
    assert!(seen.is_new(&numbered(Some(1), 1)));
    assert!(!seen.is_new(&RefusedRecord { time: at(9), ..numbered(Some(1), 1) }));
    let other = RefusedRecord { session: SessionId::new("s2").unwrap(), ..numbered(Some(1), 1) };
    let of_messages = RefusedRecord { agent: None, ..numbered(Some(1), 1) };
    // Another gate of the session began a sum in the same millisecond.
    let mut larger = numbered(Some(1), 1);
    larger.add(RefusedRow::new("ARGS_SCHEMA"));
    for new in [numbered(Some(2), 1), numbered(Some(1), 2), other, of_messages, larger] {
        assert!(seen.is_new(&new), "{new:?}");
    }
}

#[test]
fn sums_without_a_number_are_all_new() {
    let mut seen = SeenSums::new();
    assert!(seen.is_new(&sum(1)) && seen.is_new(&sum(1)));
}

#[test]
fn recognised_sums_are_bounded() {
    let mut seen = SeenSums::new();
    let numbered = |number| RefusedRecord { number: Some(number), ..sum(1) };
    for number in 0..=256 {
        assert!(seen.is_new(&numbered(number)));
    }
    assert!(seen.is_new(&numbered(0)) && !seen.is_new(&numbered(256)));
}
