#![expect(clippy::arithmetic_side_effects, reason = "a value out of range fails the test")]

mod alarms;
mod causes;
mod replays;
