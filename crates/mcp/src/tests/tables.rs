use crate::fault::Fault;
use crate::message::RpcId;
use crate::table::{Answered, Cancel, Table};

const fn id(number: i64) -> RpcId {
    RpcId::Number(number)
}

#[test]
fn an_id_cannot_be_used_again_while_it_is_outstanding() {
    let mut table = Table::new(8);
    table.open(id(1), 'a').unwrap();
    assert_eq!(table.open(id(1), 'b'), Err(Fault::IdInUse));
    assert_eq!(table.hold(id(1), 'b'), Err(Fault::IdInUse));
    // A text and a number are different ids, even if they look alike.
    table.open(RpcId::text("1").unwrap(), 'c').unwrap();
    assert_eq!(table.answer(&id(1)), Answered::Open('a'));
    table.open(id(1), 'd').unwrap();
}

#[test]
fn an_answer_belongs_to_one_request_and_comes_once() {
    let mut table = Table::new(8);
    table.open(id(1), 'a').unwrap();
    assert_eq!(table.answer(&id(2)), Answered::Unknown);
    assert_eq!(table.answer(&id(1)), Answered::Open('a'));
    assert_eq!(table.answer(&id(1)), Answered::Unknown);
}

#[test]
fn more_requests_than_the_limit_are_refused() {
    let mut table = Table::new(1);
    table.open(id(1), 'a').unwrap();
    assert_eq!(table.open(id(2), 'b'), Err(Fault::TooMany));
}

#[test]
fn a_held_request_cannot_be_answered_before_it_is_sent() {
    let mut table = Table::new(8);
    table.hold(id(1), 'a').unwrap();
    assert_eq!(table.answer(&id(1)), Answered::Unknown);
    table.release(&id(1), 'b').unwrap();
    assert_eq!(table.answer(&id(1)), Answered::Open('b'));
    // The answer came before the request was marked as written.
    assert_eq!(table.sent(&id(1)), None);
}

#[test]
fn a_request_that_was_cancelled_while_held_is_never_released() {
    let mut table = Table::new(8);
    table.hold(id(1), 'a').unwrap();
    assert_eq!(table.cancel(&id(1), b"c", |_| true), Cancel::Held('a'));
    assert!(!table.is_held(&id(1)));
    assert_eq!(table.release(&id(1), 'b'), Err('b'));
}

#[test]
fn a_cancellation_that_overtakes_its_request_goes_out_after_it() {
    let mut table = Table::new(8);
    table.hold(id(1), 'a').unwrap();
    table.release(&id(1), 'b').unwrap();
    assert_eq!(table.cancel(&id(1), b"line", |_| true), Cancel::Later('b'));
    assert_eq!(table.answer(&id(1)), Answered::Late);
    assert_eq!(table.sent(&id(1)), Some(b"line".to_vec()));
    assert_eq!(table.answer(&id(1)), Answered::Late);
    assert_eq!(table.answer(&id(1)), Answered::Unknown);
}

#[test]
fn cancelled_id_stays_in_use_until_its_late_answer() {
    let mut table = Table::new(8);
    table.open(id(1), 'a').unwrap();
    assert_eq!(table.cancel(&id(1), b"", |_| true), Cancel::Pass('a'));
    assert_eq!(table.open(id(1), 'b'), Err(Fault::IdInUse));
    assert_eq!(table.answer(&id(1)), Answered::Late);
    table.open(id(1), 'b').unwrap();
}

#[test]
fn uncancellable_request_stays_open() {
    let mut table = Table::new(8);
    table.open(id(1), 'a').unwrap();
    assert_eq!(table.cancel(&id(1), b"", |_| false), Cancel::Nothing);
    assert_eq!(table.answer(&id(1)), Answered::Open('a'));
}

#[test]
fn cancelled_ids_are_forgotten_oldest_first() {
    let mut table = Table::new(8);
    for number in 0..1_100 {
        table.open(id(number), ()).unwrap();
        table.cancel(&id(number), b"", |()| true);
    }
    assert_eq!(table.answer(&id(0)), Answered::Unknown);
    assert_eq!(table.answer(&id(1_099)), Answered::Late);
}

#[test]
fn after_the_end_everything_is_out_and_nothing_comes_in() {
    let mut table = Table::new(8);
    table.open(id(1), 'a').unwrap();
    table.hold(id(2), 'b').unwrap();
    assert_eq!(table.end(), ['a', 'b']);
    assert_eq!((table.withdraw(&id(1)), table.withdraw(&id(2))), (None, None));
    assert_eq!(table.open(id(3), 'c'), Err(Fault::ServerEnded));
}
