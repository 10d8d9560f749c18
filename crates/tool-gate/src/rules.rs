//! Rules of single steps, as functions of their inputs: the gate's own, for programs that decide a recorded call again.
//!
//! No rule here decides a call by itself: [`GateStep::ALL`](crate::GateStep::ALL) has their order.

pub use crate::call::ARGS_RECIPE;
pub use crate::observe::OBSERVED;
pub use crate::rejection::Refusal;
pub use crate::steps::args::{Reservation, Usage, check_args};
pub use crate::steps::evidence::{NO_PROPOSAL, came_without_proposal, check_not_revoked, takes_no_proposals};
pub use crate::steps::intent::{Goal, check_restated};
pub use crate::steps::session::{
    agent_code, check_contract, check_definition, contract_code, is_name_disclosed, listed_tool, meant_tool,
    only_tool,
};
