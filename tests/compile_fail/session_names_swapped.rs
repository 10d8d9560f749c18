//! Agent, session and principal cannot be swapped: each has a type of its own.
use countersign::core::{AgentId, Principal, SessionId};
use countersign::{Countersign, SessionBuilder};

fn open(it: &Countersign, agent: AgentId, session: SessionId, principal: Principal) -> SessionBuilder {
    it.session(session, principal, agent)
}

fn main() {}
