//! Reading a proposal, and saying how it was judged.

use countersign_action_proposal::{ActionProposal, ProposalCode, ProposalError, ProposalLimits};
use countersign_canonical_json::{
    Canonical, JsonError, JsonErrorKind, Kind, Limits, Recipe, ValueRef, read, write_string,
};
use countersign_core::Digest;
use countersign_tool_gate::own_arguments;
use serde_json::{Value, json};

use crate::command::json::malformed;
use crate::failure::{Exit, Failure};
use crate::files::Source;

/// The most bytes of a proposal, PIC/1.0's own limit.
const PROPOSAL_BYTES: usize = 64_000;

/// The most bytes of a call's arguments.
pub(super) const ARGS_BYTES: u64 = 1 << 20;

/// The limits that a proposal in a file is read under.
pub(super) fn limits() -> ProposalLimits {
    ProposalLimits::default().proposal_bytes(PROPOSAL_BYTES)
}

/// A proposal's bytes. What is no JSON at all is a file that cannot be read; what is JSON is left to be judged.
pub(super) fn read_bytes(from: &Source) -> Result<Vec<u8>, Failure> {
    // One more than is taken, so that what is too large is refused with the proposal's own code.
    let bytes = from.read_prefix((PROPOSAL_BYTES as u64).saturating_add(1))?;
    if bytes.len() > PROPOSAL_BYTES {
        return Ok(bytes);
    }
    match read(&bytes, Recipe::PicCjson1, &Limits::hard_caps()) {
        Err(error) if !is_json(&error) => Err(malformed(&error)),
        Ok(_) | Err(_) => Ok(bytes),
    }
}

/// Says whether some reader may take for JSON what the strict one refused.
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

/// Reads a file that has to be a proposal.
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

/// The digest of a call's arguments, without what travels beside them.
pub(super) fn read_args(from: &Source) -> Result<Digest, Failure> {
    let bytes = from.read_prefix(ARGS_BYTES.saturating_add(1))?;
    let args = read(&bytes, Recipe::PicCjson1, &Limits::default())
        .map_err(|error| malformed(&error).about("--args"))?;
    if args.value().kind() != Kind::Object {
        return Err(Failure::new("ARGS_NOT_OBJECT", "a tool's arguments are a JSON object").about("--args"));
    }
    Ok(own_arguments(args).digest())
}

/// The proposal's text with these evidence entries and no others. No digest of the rest changes: they are all over
/// canonical text.
pub(super) fn with_evidence(proposal: &Canonical, entries: &[String]) -> String {
    let others = proposal.value().members().filter(|(name, _)| *name != "evidence");
    let others = others.map(|(name, value)| (name, value.canonical_text()));
    let list = format!("[{}]", entries.join(","));
    object(others.chain([("evidence", list)]))
}

/// The evidence entries of a proposal, each as its own text.
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

/// The code as these verbs say it. In a file there is no call that could lack its proposal: what is no object is not of
/// the schema.
pub(super) fn code_of(error: &ProposalError) -> ProposalCode {
    let code = error.code();
    if code == ProposalCode::InvalidRequest { ProposalCode::SchemaInvalid } else { code }
}

/// How a run ends with a refusal.
pub(super) const fn exit_of(code: ProposalCode) -> Exit {
    if matches!(code, ProposalCode::SchemaInvalid) {
        Exit::Schema
    } else if matches!(code, ProposalCode::EvidenceRequired | ProposalCode::EvidenceFailed) {
        Exit::Evidence
    } else {
        Exit::Refused
    }
}

/// A refusal for a person: the code's sentence, and with `debug` the place and the rule; without, how to have them.
pub(super) fn refusal(error: &ProposalError, debug: bool) -> Failure {
    let code = code_of(error);
    let more = if debug { error.detail() } else { "--debug says where, and by which rule".to_owned() };
    let message = format!("{}: {more}", code.message());
    Failure::refused(code.as_str(), message).ending(exit_of(code))
}

/// A refusal for a program.
pub(super) fn refusal_json(error: &ProposalError, debug: bool) -> Value {
    let code = code_of(error);
    if debug {
        let details = json!({"place": error.place(), "rule": error.rule()});
        json!({"code": code.as_str(), "message": code.message(), "details": details})
    } else {
        json!({"code": code.as_str(), "message": code.message()})
    }
}
