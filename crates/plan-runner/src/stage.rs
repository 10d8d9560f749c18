//! The run of a model's plan as a state machine without I/O: each stage makes one request, takes the answer and becomes the
//! next stage, or ends. The drivers only fetch the answers. An error always ends the run. From the start of the plan on,
//! [`StartedPlan`](crate::StartedPlan) owns the order of steps, here and where a plan is given.

mod asked;
mod context;
mod proposed;
mod running;

pub(crate) use asked::{Asked, Planned};
pub(crate) use context::RunContext;
pub(crate) use running::Turned;
