//! A question's row, read with the constructors of its types: the file is untrusted input.

use countersign_approval_token::{ApprovalToken, AttestedProposal, PendingApproval, PendingState};
use countersign_core::{CallId, OperatorId};
use rusqlite::Row;

use crate::error::StoreFailure;

/// Columns of a row: id, request, state and token.
pub(crate) type PendingRow = (String, String, String, Option<String>);

pub(crate) fn columns(row: &Row<'_>) -> rusqlite::Result<PendingRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

/// Parses a row.
pub(crate) fn read_item(
    (id, request, state, token): PendingRow,
) -> Result<(PendingApproval, PendingState), StoreFailure> {
    let pending: PendingApproval = serde_json::from_str(&request).map_err(|_| StoreFailure::Damaged)?;
    if pending.id().as_str() != id {
        return Err(StoreFailure::Damaged);
    }
    let state = match (state.as_str(), token) {
        ("waiting", None) => PendingState::Waiting,
        ("approved", Some(token)) => PendingState::Approved(read_token(&token)?),
        ("denied", None) => PendingState::Denied,
        ("used", None) => PendingState::Used,
        _ => return Err(StoreFailure::Damaged),
    };
    Ok((pending, state))
}

pub(crate) fn read_id(text: &str) -> Result<CallId, StoreFailure> {
    CallId::new(text).map_err(|_| StoreFailure::Damaged)
}

pub(crate) fn read_operator(text: &str) -> Result<OperatorId, StoreFailure> {
    OperatorId::new(text).map_err(|_| StoreFailure::Damaged)
}

pub(crate) fn read_answer(text: &str) -> Result<AttestedProposal, StoreFailure> {
    serde_json::from_str(text).map_err(|_| StoreFailure::Damaged)
}

pub(crate) fn read_token(text: &str) -> Result<ApprovalToken, StoreFailure> {
    text.parse().map_err(|_| StoreFailure::Damaged)
}
