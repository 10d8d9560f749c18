//! A run as a state machine without I/O: each stage makes one request, takes the answer and becomes the next stage, or
//! ends. The drivers only fetch the answers. An error always ends the run.

mod asked;
mod proposed;
mod running;

pub(crate) use asked::{Asked, Planned};
pub(crate) use proposed::Proposed;
pub(crate) use running::{Running, Turned};
