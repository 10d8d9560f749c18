//! A run as one machine without I/O of its own: each stage asks for one thing, takes the answer and becomes the next stage, or
//! ends. The drivers only fetch what is asked for. Nothing goes on after an error.

mod asked;
mod proposed;
mod running;

pub(crate) use asked::{Asked, Planned};
pub(crate) use proposed::Proposed;
pub(crate) use running::{Running, Turned};
