//! The end of the session's time: the client and the operator are notified, once.

use std::time::Duration;

use countersign_tool_gate::RejectionCode;

use crate::era_2025;
use crate::fault::Fault;
use crate::link::Link;

/// How long the clock is not looked at. A machine that slept is noticed that late.
const LOOK: Duration = Duration::from_secs(1);

/// Text for the client beside the gate's own sentence: a host goes on asking for a "new session" that only it can open.
const ADVICE: &str = "Start this server again in the MCP client to open a new session";

/// Waits for the end of the session's time and notifies of it, unless the gateway ends before.
pub(crate) fn watch_session(link: &Link) {
    while !is_over(link) {
        if link.wait_while_it_runs(LOOK) {
            return;
        }
    }
    link.notify(Fault::SessionEnded);
    // A list of tools is empty from now on.
    if link.handshake.is_done() {
        let line = era_2025::tools_changed_line();
        link.to_client.offer(line.len(), line.into(), usize::MAX);
    }
}

fn is_over(link: &Link) -> bool {
    link.clock.now().is_ok_and(|now| now >= link.gate.contract().expires())
}

/// What a refused client can do, where only the client itself can.
pub(crate) fn advice(code: RejectionCode) -> Option<&'static str> {
    (code == RejectionCode::ContractExpired).then_some(ADVICE)
}
