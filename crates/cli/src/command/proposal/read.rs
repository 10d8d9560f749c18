//! Reads proposals and reports verdicts on them.

use countersign_action_proposal::{ActionProposal, ProposalCode, ProposalError, ProposalLimits};
use countersign_canonical_json::{
    Canonical, JsonError, JsonErrorKind, Kind, Limits, Recipe, ValueRef, read, write_string,
};
use countersign_core::Digest;
use countersign_tool_gate::own_arguments;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::files::Source;
use countersign_host::inputs::malformed;

/// Most bytes of a proposal: PIC/1.0's own limit.
const PROPOSAL_BYTES: usize = 64_000;

/// Most bytes of a call's arguments.
pub(super) const ARGS_BYTES: u64 = 1 << 20;

/// Limits for a proposal in a file.
pub(super) fn limits() -> ProposalLimits {
    ProposalLimits::default().proposal_bytes(PROPOSAL_BYTES)
}

/// Reads the bytes of a proposal. Input that is not JSON is an unreadable file; any JSON is left for the verifier.
pub(super) fn read_bytes(from: &Source) -> Result<Vec<u8>, Failure> {
    // One byte more than is accepted, so that oversized input is refused with the proposal's own code.
    let bytes = from.read_prefix((PROPOSAL_BYTES as u64).saturating_add(1))?;
    if bytes.len() > PROPOSAL_BYTES {
        return Ok(bytes);
    }
    match read(&bytes, Recipe::PicCjson1, &Limits::hard_caps()) {
        Err(error) if !is_json(&error) => Err(malformed(&error).into()),
        Ok(_) | Err(_) => Ok(bytes),
    }
}

/// Returns `true` if another reader might accept the input as JSON that the strict reader refused.
const fn is_json(error: &JsonError) -> bool {
    matches!(
        error.kind(),
        JsonErrorKind::TooLarge
            | JsonErrorKind::TooDeep
            | JsonErrorKind::TooWide
            | JsonErrorKind::LoneSurrogate
            | JsonErrorKind::InexactNumber
            | JsonErrorKind::UnsafeInteger
            | JsonErrorKind::NumberOverflow
            | JsonErrorKind::DuplicateName
    )
}

/// Reads a file that must be a proposal.
pub(super) fn read_proposal(
    from: &Source,
    parse: impl FnOnce(&[u8]) -> Result<ActionProposal, ProposalError>,
) -> Result<(ActionProposal, Canonical), Failure> {
    let bytes = read_bytes(from)?;
    let proposal = parse(&bytes).map_err(|error| refusal(&error, true))?;
    let canonical =
        read(&bytes, Recipe::PicCjson1, &Limits::hard_caps()).map_err(|error| malformed(&error))?;
    Ok((proposal, canonical))
}

/// Returns the digest of a call's arguments without reserved members.
pub(super) fn read_args(from: &Source) -> Result<Digest, Failure> {
    let bytes = from.read_prefix(ARGS_BYTES.saturating_add(1))?;
    let args = read(&bytes, Recipe::PicCjson1, &Limits::default())
        .map_err(|error| malformed(&error).about("--args"))?;
    if args.value().kind() != Kind::Object {
        return Err(Failure::new("ARGS_NOT_OBJECT", "arguments are not a JSON object").about("--args"));
    }
    Ok(own_arguments(args).digest())
}

/// Returns the proposal's text with exactly these evidence entries. Other digests stay the same: they are computed over
/// canonical text.
pub(super) fn with_evidence(proposal: &Canonical, entries: &[String]) -> String {
    let others = proposal.value().members().filter(|(name, _)| *name != "evidence");
    let others = others.map(|(name, value)| (name, value.canonical_text()));
    let list = format!("[{}]", entries.join(","));
    object(others.chain([("evidence", list)]))
}

/// Returns the text of each evidence entry of a proposal.
pub(super) fn evidence_texts(proposal: &Canonical) -> Vec<String> {
    let list = proposal.value().get("evidence");
    list.iter().flat_map(|list| list.elements()).map(ValueRef::canonical_text).collect()
}

fn object<'a>(members: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut text = String::from("{");
    for (name, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        write_string(&mut text, name);
        text.push(':');
        text.push_str(&value);
    }
    text.push('}');
    text
}

/// Returns the code that these verbs report. A file has no call whose proposal could be missing, so a value that is not
/// an object is a schema error.
pub(super) fn code_of(error: &ProposalError) -> ProposalCode {
    let code = error.code();
    if code == ProposalCode::InvalidRequest { ProposalCode::SchemaInvalid } else { code }
}

/// Returns the exit code for a refusal.
pub(super) const fn exit_of(code: ProposalCode) -> Exit {
    if matches!(code, ProposalCode::SchemaInvalid) {
        Exit::Schema
    } else if matches!(code, ProposalCode::EvidenceRequired | ProposalCode::EvidenceFailed) {
        Exit::Evidence
    } else {
        Exit::Refused
    }
}

/// Formats a refusal for a person: the code's message, then the place and the rule with `debug`, or else a hint at
/// `--debug`.
pub(super) fn refusal(error: &ProposalError, debug: bool) -> Failure {
    let code = code_of(error);
    let more = if debug { error.detail() } else { "--debug says where, and by which rule".to_owned() };
    let message = format!("{}: {more}", code.message());
    Failure::refused(code.as_str(), message).ending(exit_of(code))
}

/// Returns a refusal as JSON.
pub(super) fn refusal_json(error: &ProposalError, debug: bool) -> Value {
    let code = code_of(error);
    if debug {
        let details = json!({"place": error.place(), "rule": error.rule()});
        json!({"code": code.as_str(), "message": code.message(), "details": details})
    } else {
        json!({"code": code.as_str(), "message": code.message()})
    }
}
