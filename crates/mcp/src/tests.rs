#![expect(clippy::arithmetic_side_effects, reason = "counting in tests")]

mod capabilities;
mod cuts;
mod era;
mod eras;
mod gateway;
mod gleans;
mod lines;
mod listings;
mod members;
mod messages;
mod outputs;
mod posts;
mod queues;
mod recipes;
mod requests;
mod results;
mod settings;
mod several;
mod shown_names;
mod submissions;
mod tables;

use countersign_canonical_json::{Canonical, Limits, Recipe, read};

/// Reads a client's text as the gateway does.
fn json(text: &str) -> Canonical {
    read(text.as_bytes(), Recipe::Jcs1, &Limits::hard_caps()).unwrap()
}
