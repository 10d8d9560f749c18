mod attacks;
mod laws;
mod recipes;
mod vectors;

use countersign_core::{Millis, SessionId, Timestamp};

use crate::*;

/// The goal in its normalised form.
fn normalise(text: &str) -> Result<String, PinError> {
    crate::normalise::with_normalised(text, |goal| String::from_utf8(goal.to_vec()).unwrap())
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn session(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn pin(goal: &str) -> PinnedAsk {
    PinnedAsk::pin(goal, &session("s1"), Millis::from_secs(60), at(1_000)).unwrap()
}

fn verify(goal: &str, restated: &str) -> Result<(), AskDrift> {
    pin(goal).verify(restated, &session("s1"), at(1_000))
}

#[test]
fn extended_pin_differs_in_its_end_alone() {
    let before = pin("Goal");
    let later = before.clone().extended_to(at(90_000));
    assert_eq!(
        (later.digest(), later.session(), later.issued()),
        (before.digest(), before.session(), at(1_000))
    );
    assert!(before.alive(at(61_000)).is_err() && later.alive(at(89_999)).is_ok());
    assert_eq!(later.clone().extended_to(at(70_000)), later, "no pin is shortened");
}

#[test]
fn restated_ascii_goal_of_2_kib_allocates_nothing() {
    let goal = "Summarise \n ticket 7. ".repeat(90);
    let (pin, session) = (pin(&goal), session("s1"));
    let count = allocation_counter::measure(|| assert_eq!(pin.verify(&goal, &session, at(1_000)), Ok(())));
    assert_eq!(count.count_total, 0);
}

#[test]
fn require_match_is_verify() {
    let pin = pin("goal");
    for (restated, who, now) in [
        ("goal", "s1", 1_000),
        ("gaol", "s1", 1_000),
        ("goal", "s2", 1_000),
        ("goal", "s1", 61_000),
        ("goal", "s1", 999),
    ] {
        let (who, now) = (session(who), at(now));
        assert_eq!(require_match(&pin, restated, &who, now), pin.verify(restated, &who, now));
    }
}

#[test]
fn pin_round_trips_as_json() {
    let pin = pin("goal");
    let json = serde_json::to_string(&pin).unwrap();
    assert_eq!(
        json,
        format!(
            "{{\"recipe\":\"ask-1\",\"unicode\":\"17.0.0\",\"session\":\"s1\",\"digest\":\"{}\",\"issued\":1000,\"expires\":61000}}",
            pin.digest()
        )
    );
    assert_eq!(serde_json::from_str::<PinnedAsk>(&json).unwrap(), pin);
}

#[test]
fn a_pin_of_another_recipe_or_shape_is_refused() {
    let json = serde_json::to_string(&pin("goal")).unwrap();
    for (from, to) in [
        ("ask-1", "ask-2"),
        ("ask-1", "ASK-1"),
        ("ask-1", ""),
        ("17.0.0", "16.0.0"),
        ("\"recipe\":\"ask-1\",", ""),
        ("{", "{\"x\":1,"),
        ("{", "{\"recipe\":\"ask-1\","),
        ("61000", "1000"),
        ("61000", "999"),
        ("61000", "9007199254740992"),
        ("61000", "61000.0"),
        ("61000", "\"61000\""),
        ("1000", "-1"),
        ("\"s1\"", "\"\""),
        ("\"s1\"", "\"s\\u0000\""),
        ("\"digest\":\"", "\"digest\":\"0"),
    ] {
        let bad = json.replacen(from, to, 1);
        assert_ne!(bad, json);
        assert!(serde_json::from_str::<PinnedAsk>(&bad).is_err(), "{bad}");
    }
}
