//! The rows of the goal table, by subject.

mod decision;
mod digest;
mod goal;
pub(crate) mod plan;
mod registry;
mod spend;
mod sweep;
mod threads;

pub use sweep::sweep;

use crate::{Row, Sampling};

/// A group of rows and the function that measures it.
pub type Group = (&'static str, fn(Sampling) -> Vec<Row>);

/// All groups, in the order of the table.
pub const GROUPS: [Group; 10] = [
    ("approved", decision::approved),
    ("free", decision::free),
    ("unchecked", decision::unchecked),
    ("undisclosed", decision::undisclosed),
    ("digest", digest::digest),
    ("threads", threads::threads),
    ("goal", goal::goal),
    ("plan", plan::plan),
    ("registry", registry::registry),
    ("spend", spend::spend),
];
