//! Expiry of the session: it is renewed, or the client and the operator are notified once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use countersign_audit_log::Direction;
use countersign_core::Timestamp;
use countersign_tool_gate::ApprovalRequest;

use crate::era_2025;
use crate::fault::Fault;
use crate::link::Link;
use crate::notice::{AnnouncedContract, GatewayNotice, Renewal};

/// Code of the notice that a session was renewed.
const RENEWED: &str = "SESSION_RENEWED";

/// Renews an expired session if the host set up renewal. Without it, or if it fails, notifies of the end once; a failed
/// renewal is tried again at the next check.
pub(crate) fn look_at_session(link: &Link) {
    follow_changes(link);
    if !is_over(link) {
        return;
    }
    let mut news = link.contract_news.announced.lock();
    // Another thread may have renewed it meanwhile.
    if !is_over(link) {
        return;
    }
    let failure = match link.renewal.as_ref().map(|negotiate| renew(link, negotiate)) {
        Some(Ok(())) => return renewed(link, &mut news),
        Some(Err(failure)) => Some(failure),
        None => None,
    };
    if std::mem::replace(&mut news.is_end_announced, true) {
        return;
    }
    if let Some(failure) = failure {
        link.record(Direction::ToClient, None, Fault::NotRenewed(failure.code()));
        link.notify_of(&failure);
    }
    link.notify(Fault::SessionEnded);
    announce_tools(link);
}

fn renew(link: &Link, negotiate: &Renewal) -> Result<(), GatewayNotice> {
    let not_renewed =
        |code, why: &str| GatewayNotice::new(code, format!("the session is not renewed: {why}"));
    let renewed = || {
        let contract = negotiate(link.now())?;
        link.gate.renew(contract).map_err(|error| not_renewed(error.code(), &error.to_string()))
    };
    // Registry and record are the host's code.
    catch_unwind(AssertUnwindSafe(renewed))
        .unwrap_or_else(|_| Err(not_renewed(Fault::Internal.code(), "negotiation panicked")))
}

fn renewed(link: &Link, news: &mut AnnouncedContract) {
    let before = std::mem::replace(news, AnnouncedContract::of(&link.gate));
    let contract = link.gate.contract();
    let text = format!(
        "the session goes on until {} under registry {}",
        contract.expires(),
        contract.registry_version()
    );
    link.notify_of(&GatewayNotice::new(RENEWED, text));
    if before.is_end_announced || before.tools != news.tools {
        link.contract_news.changes.fetch_add(1, Ordering::SeqCst);
        follow_changes(link);
        announce_tools(link);
    }
}

/// Forgets the known definitions after a renewal that changed the tools, by this gateway or another of the session: the gate has
/// forgotten the definitions of tools that only the previous contract disclosed.
fn follow_changes(link: &Link) {
    let changes = link.contract_news.changes.load(Ordering::SeqCst);
    if link.seen_changes.swap(changes, Ordering::SeqCst) != changes {
        link.listing.forget();
    }
}

/// Notifies the client that the list of tools has changed.
fn announce_tools(link: &Link) {
    if link.handshake.is_done() {
        link.to_client.offer(era_2025::tools_changed_line(), usize::MAX);
    }
}

fn is_over(link: &Link) -> bool {
    link.clock.now().is_ok_and(|now| now >= link.gate.contract().expires())
}

/// End of the time in which a denial of this request counts: as long as the session can last. A renewed session has no end of
/// its own, but the act names the registry's version, under which no call passes after its expiry.
pub(crate) fn denial_ends(link: &Link, request: &ApprovalRequest) -> Timestamp {
    let contract_ends = request.session_ends();
    if link.renewal.is_none() {
        return contract_ends;
    }
    let view = link.gate.registry().view();
    contract_ends.max(view.snapshot().expires().saturating_add(view.snapshot().skew()))
}
