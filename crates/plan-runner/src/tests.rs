#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

mod amended;
mod approvals;
mod breaches;
mod case;
mod flows;
mod halts;
mod plan_texts;
mod prompts;
mod routes;
mod turn_texts;
mod world;
