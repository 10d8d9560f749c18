//! Lines on their way to the client: forwarded byte for byte, except for the gateway's own edits.

use countersign_audit_log::Direction;
use countersign_canonical_json::ValueRef;

use crate::cut::{Edits, ValuePosition};
use crate::edited::EditNotice;
use crate::era_2025;
use crate::fault::Fault;
use crate::link::Link;
use crate::members::strange;
use crate::message::RpcId;

/// Maximum number of lines that wait for the server to read when one more of its requests is refused. A server that keeps
/// asking without reading loses answers and costs no memory here.
pub(crate) const MAX_REFUSALS: usize = 1_024;

/// Forwards a final answer, with the notice that a person edited the call.
pub(crate) fn pass_finished(
    link: &Link,
    line: &[u8],
    message: ValueRef<'_>,
    client: &RpcId,
    is_call: bool,
    notice: Option<&EditNotice>,
) {
    pass_answer(link, line, message, client, |edits, place| {
        if is_call {
            cut_look_alikes(link, edits, place, message);
        }
        if let Some(notice) = notice {
            notice.add(edits, place);
        }
    });
}

/// Cuts the look-alikes of known members out of a result, and records that.
pub(crate) fn cut_look_alikes<'a>(
    link: &Link,
    edits: &mut Edits<'a>,
    line: &ValuePosition<'a>,
    message: ValueRef<'_>,
) {
    if era_2025::cut_look_alikes(edits, line, message) {
        link.record(Direction::ToClient, None, Fault::UnknownMember);
    }
}

/// Forwards an answer under the client's own id, with these edits.
pub(crate) fn pass_answer<'a>(
    link: &Link,
    line: &'a [u8],
    message: ValueRef<'_>,
    client: &RpcId,
    change: impl FnOnce(&mut Edits<'a>, &ValuePosition<'a>),
) {
    pass(link, line, message, None, |edits, place| {
        if let Some(id) = place.get("id") {
            edits.replace(&id, client.json());
        }
        change(edits, place);
    });
    link.answer_behind(client);
}

/// Forwards a line with these edits, otherwise byte for byte. Members that its method does not have and the gateway's own
/// metadata, above all decisions, are cut out. The gateway's codes are marked as the server's.
pub(crate) fn pass<'a>(
    link: &Link,
    line: &'a [u8],
    message: ValueRef<'_>,
    method: Option<&str>,
    change: impl FnOnce(&mut Edits<'a>, &ValuePosition<'a>),
) {
    let (mut edits, place) = (Edits::new(line), ValuePosition::new(line));
    change(&mut edits, &place);
    if let Some(strange) = method.and_then(|method| strange(method, message.get("params"))) {
        link.record_strange(Direction::ToClient, &strange);
        strange.cut(&mut edits, &place);
    }
    if era_2025::cut_ours_everywhere(&mut edits, &place, message) {
        link.record(Direction::ToClient, method, Fault::ReservedMeta);
    }
    if era_2025::mark_code(&mut edits, &place, message) {
        link.record(Direction::ToClient, method, Fault::ReservedCode);
    }
    link.send_to_client(edits.finish());
}
