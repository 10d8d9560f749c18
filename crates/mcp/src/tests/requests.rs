use crate::fault::Fault;
use crate::message::RpcId;
use crate::requests::{AnswerTurn, Request, Requests};
use crate::table::{Answered, Cancel};

const fn id(number: i64) -> RpcId {
    RpcId::Number(number)
}

fn requests() -> Requests<char> {
    Requests::new("p", 8)
}

/// Cancels the request with this id as the client. It gets no answer.
fn cancel(requests: &mut Requests<char>, client: &RpcId) -> Option<Cancel<char>> {
    let serial = requests.of_client(client)?;
    let cancelled = requests.cancel(serial, b"line", |_| true);
    assert_eq!(requests.take_behind(client), [""; 0]);
    Some(cancelled)
}

fn answered(requests: &mut Requests<char>, wire: &str) -> Answered<(Option<RpcId>, char)> {
    match requests.answer(&RpcId::text(wire).unwrap()) {
        Answered::Open(Request { client, what }) => Answered::Open((client, what)),
        Answered::Late => Answered::Late,
        Answered::Unknown => Answered::Unknown,
    }
}

#[test]
fn an_answer_names_the_gateways_id() {
    let mut requests = requests();
    let serial = requests.open(id(7), 'a').unwrap();
    assert_eq!(requests.wire_id(serial), RpcId::text("p-1").unwrap());
    for other in ["7", "1", "p-01", "p-+1", "p-1 ", "q-1", "p-2", "p-", "-1"] {
        assert_eq!(answered(&mut requests, other), Answered::Unknown, "{other}");
    }
    assert_eq!(requests.answer(&id(7)), Answered::Unknown);
    assert_eq!(answered(&mut requests, "p-1"), Answered::Open((Some(id(7)), 'a')));
}

#[test]
fn an_id_of_the_client_is_free_again_once_its_request_is_gone() {
    let mut requests = requests();
    let serial = requests.open(id(1), 'a').unwrap();
    assert_eq!(requests.open(id(1), 'b'), Err(Fault::IdInUse));
    assert_eq!(requests.withdraw(serial), Some('a'));
    let serial = requests.hold(id(1), 'b').unwrap();
    assert_eq!(cancel(&mut requests, &id(1)), Some(Cancel::Held('b')));
    // It does not match a later request of the same id either.
    requests.hold(id(1), 'c').unwrap();
    assert_eq!(requests.release(&id(1), serial, 'b'), Err('b'));
    requests.end();
    assert_eq!(requests.open(id(1), 'd'), Err(Fault::ServerEnded));
}

#[test]
fn refusal_waits_for_the_answers_of_an_ended_table() {
    let mut requests = requests();
    requests.open(id(1), 'a').unwrap();
    assert_eq!(requests.end().len(), 1);
    assert_eq!(requests.answer_behind(&id(1), "no".to_owned()), AnswerTurn::Later);
    assert_eq!(requests.take_behind(&id(1)), ["no"]);
}

#[test]
fn numbers_are_never_used_again() {
    let mut requests = requests();
    for number in 1..5_000 {
        assert_eq!(requests.open(id(1), 'a'), Ok(number));
        assert_eq!(requests.of_client(&id(1)), Some(number));
        assert_eq!(cancel(&mut requests, &id(1)), Some(Cancel::Pass('a')));
    }
    requests.open(id(1), 'b').unwrap();
    for number in 1..5_000 {
        assert!(!matches!(answered(&mut requests, &format!("p-{number}")), Answered::Open(_)));
    }
    assert_eq!(answered(&mut requests, "p-5000"), Answered::Open((Some(id(1)), 'b')));
}

#[test]
fn no_client_can_cancel_or_block_the_gateways_own_request() {
    let mut requests = requests();
    let serial = requests.reserve();
    requests.open_own(serial, 'o').unwrap();
    let own = requests.wire_id(serial);
    assert_eq!(cancel(&mut requests, &own), None);
    requests.open(own.clone(), 'c').unwrap();
    assert_eq!(answered(&mut requests, "p-1"), Answered::Open((None, 'o')));
    assert_eq!(answered(&mut requests, "p-2"), Answered::Open((Some(own), 'c')));
}

#[test]
fn a_refusal_waits_behind_the_answer_of_its_id() {
    let mut requests = requests();
    let refusal = || String::from("no");
    assert_eq!(requests.answer_behind(&id(1), refusal()), AnswerTurn::Now(refusal()));
    let serial = requests.open(id(1), 'a').unwrap();
    assert_eq!(requests.answer_behind(&id(1), refusal()), AnswerTurn::Later);
    assert_eq!(requests.answer_behind(&id(2), refusal()), AnswerTurn::Now(refusal()));
    assert_eq!(requests.take_behind(&id(2)), [""; 0]);
    requests.withdraw(serial);
    assert_eq!(requests.answer_behind(&id(1), refusal()), AnswerTurn::Later, "the answer is not sent yet");
    assert_eq!(requests.take_behind(&id(1)), ["no", "no"]);
    assert_eq!(requests.answer_behind(&id(1), refusal()), AnswerTurn::Now(refusal()));
    let serial = requests.open(id(1), 'a').unwrap();
    assert_eq!(requests.answer_behind(&id(1), refusal()), AnswerTurn::Later);
    requests.withdraw(serial);
    let serial = requests.open(id(1), 'b').unwrap();
    assert_eq!(requests.take_behind(&id(1)), [""; 0], "the id is in use again");
    requests.withdraw(serial);
    assert_eq!(requests.take_behind(&id(1)), ["no"]);
    requests.open(id(1), 'b').unwrap();
    for _ in 0..64 {
        assert_eq!(requests.answer_behind(&id(1), refusal()), AnswerTurn::Later);
    }
    assert_eq!(requests.answer_behind(&id(1), refusal()), AnswerTurn::Never);
}
