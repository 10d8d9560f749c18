use std::fmt::Write as _;

use countersign_canonical_json::{Kind, ValueRef};

use crate::evidence::{EvidenceEntry, HashEntry, SignatureEntry};
use crate::provenance::{Claim, Provenance, TrustLevel};
use crate::{Profile, ProposalCode, ProposalError};

/// Only value of `protocol`.
const PROTOCOL: &str = "PIC/1.0";

/// Members of a proposal. The first six are mandatory.
const MEMBERS: [&str; 7] = ["protocol", "intent", "impact", "provenance", "claims", "action", "evidence"];

/// Members of a proposal, read by the PIC/1.0 schema, in its order.
pub(crate) struct ProposalMembers<'v> {
    pub(crate) intent: Box<str>,
    pub(crate) impact: countersign_core::ImpactClass,
    pub(crate) provenance: Vec<Provenance>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) claims_value: ValueRef<'v>,
    pub(crate) tool: Box<str>,
    pub(crate) args: ValueRef<'v>,
    pub(crate) evidence: Vec<EvidenceEntry>,
}

/// Reads a proposal member by member. The first violation of the schema ends the reading, with its pointer.
pub(crate) fn read_members(
    proposal: ValueRef<'_>,
    profile: Profile,
) -> Result<ProposalMembers<'_>, ProposalError> {
    let at = MemberPath::root();
    object(proposal, &at, &MEMBERS)?;
    constant(proposal, &at, "protocol", PROTOCOL)?;
    let intent = string(proposal, &at, "intent")?.into();
    let impact = string(proposal, &at, "impact")?
        .parse()
        .map_err(|_| at.member("impact").refuse("must be one of the seven impact classes"))?;
    let (list, place) = array(proposal, &at, "provenance")?;
    let provenance = entries(list, &place, |value, at| provenance(value, at, profile))?;
    let (claims_value, place) = array(proposal, &at, "claims")?;
    let claims = entries(claims_value, &place, claim)?;
    let (action, place) = member(proposal, &at, "action")?;
    object(action, &place, &["tool", "args"])?;
    let tool = string(action, &place, "tool")?.into();
    let (args, place) = member(action, &place, "args")?;
    if args.kind() != Kind::Object {
        return Err(place.refuse("must be an object"));
    }
    let evidence = match proposal.get("evidence") {
        None => Vec::new(),
        Some(_) => {
            let (list, place) = array(proposal, &at, "evidence")?;
            entries(list, &place, evidence)?
        }
    };
    Ok(ProposalMembers { intent, impact, provenance, claims, claims_value, tool, args, evidence })
}

fn provenance(
    value: ValueRef<'_>,
    at: &MemberPath<'_>,
    profile: Profile,
) -> Result<Provenance, ProposalError> {
    object(value, at, &["id", "trust", "source"])?;
    let id = string(value, at, "id")?.into();
    let claimed = match string(value, at, "trust")? {
        "trusted" => TrustLevel::Trusted,
        "untrusted" => TrustLevel::Untrusted,
        // As the reference from 0.8.1 until 0.9, which dropped it from the schema.
        "semi_trusted" if profile == Profile::Pic08 => TrustLevel::Untrusted,
        _ => return Err(at.member("trust").refuse("must be `trusted` or `untrusted`")),
    };
    let source = optional_string(value, at, "source")?.map(Box::from);
    Ok(Provenance { id, claimed, source })
}

fn claim(value: ValueRef<'_>, at: &MemberPath<'_>) -> Result<Claim, ProposalError> {
    object(value, at, &["text", "evidence"])?;
    let text = string(value, at, "text")?.into();
    let (list, place) = array(value, at, "evidence")?;
    let cited = |value: ValueRef<'_>, at: &MemberPath<'_>| {
        value.as_str().map(Box::from).ok_or_else(|| at.refuse("must be a string"))
    };
    Ok(Claim { text, evidence: entries(list, &place, cited)? })
}

fn evidence(value: ValueRef<'_>, at: &MemberPath<'_>) -> Result<EvidenceEntry, ProposalError> {
    if value.kind() != Kind::Object {
        return Err(at.refuse("must be an object"));
    }
    match string(value, at, "type")? {
        "hash" => hash_evidence(value, at).map(EvidenceEntry::Hash),
        "sig" => signature_evidence(value, at).map(EvidenceEntry::Signature),
        _ => Err(at.member("type").refuse("must be `hash` or `sig`")),
    }
}

fn hash_evidence(value: ValueRef<'_>, at: &MemberPath<'_>) -> Result<HashEntry, ProposalError> {
    object(value, at, &["id", "type", "ref", "sha256", "attestor"])?;
    let id = string(value, at, "id")?.into();
    let reference = string(value, at, "ref")?.into();
    let sha256 = string(value, at, "sha256")?
        .parse()
        .map_err(|_| at.member("sha256").refuse("must be 64 lower-case hexadecimal digits"))?;
    optional_string(value, at, "attestor")?;
    Ok(HashEntry { id, reference, sha256 })
}

fn signature_evidence(value: ValueRef<'_>, at: &MemberPath<'_>) -> Result<SignatureEntry, ProposalError> {
    let known = ["id", "type", "ref", "payload", "signer", "alg", "signature", "key_id", "attestor"];
    object(value, at, &known)?;
    let id = string(value, at, "id")?.into();
    string(value, at, "ref")?;
    let payload = string(value, at, "payload")?.into();
    constant(value, at, "alg", "ed25519")?;
    let signature = string(value, at, "signature")?.into();
    let key_id = string(value, at, "key_id")?.into();
    optional_string(value, at, "signer")?;
    optional_string(value, at, "attestor")?;
    Ok(SignatureEntry { id, payload, signature, key_id })
}

/// Requires an object without members outside of the list.
fn object(value: ValueRef<'_>, at: &MemberPath<'_>, known: &[&str]) -> Result<(), ProposalError> {
    if value.kind() != Kind::Object {
        return Err(at.refuse("must be an object"));
    }
    // why: the sender chooses the name, so the place is the object.
    if value.members().any(|(name, _)| !known.contains(&name)) {
        return Err(at.refuse("must have no member that the schema does not name"));
    }
    Ok(())
}

fn member<'v, 'p>(
    value: ValueRef<'v>,
    at: &'p MemberPath<'p>,
    name: &'static str,
) -> Result<(ValueRef<'v>, MemberPath<'p>), ProposalError> {
    let place = at.member(name);
    match value.get(name) {
        Some(member) => Ok((member, place)),
        None => Err(place.refuse("must be there")),
    }
}

fn string<'v>(
    value: ValueRef<'v>,
    at: &MemberPath<'_>,
    name: &'static str,
) -> Result<&'v str, ProposalError> {
    let (member, place) = member(value, at, name)?;
    member.as_str().ok_or_else(|| place.refuse("must be a string"))
}

fn optional_string<'v>(
    value: ValueRef<'v>,
    at: &MemberPath<'_>,
    name: &'static str,
) -> Result<Option<&'v str>, ProposalError> {
    match value.get(name) {
        None => Ok(None),
        Some(_) => string(value, at, name).map(Some),
    }
}

fn constant(
    value: ValueRef<'_>,
    at: &MemberPath<'_>,
    name: &'static str,
    wanted: &'static str,
) -> Result<(), ProposalError> {
    if string(value, at, name)? == wanted {
        return Ok(());
    }
    Err(at.member(name).refuse(format!("must be `{wanted}`")))
}

fn array<'v, 'p>(
    value: ValueRef<'v>,
    at: &'p MemberPath<'p>,
    name: &'static str,
) -> Result<(ValueRef<'v>, MemberPath<'p>), ProposalError> {
    let (member, place) = member(value, at, name)?;
    if member.kind() == Kind::Array { Ok((member, place)) } else { Err(place.refuse("must be an array")) }
}

/// Reads each element of a list at its own place.
fn entries<T>(
    list: ValueRef<'_>,
    at: &MemberPath<'_>,
    read: impl Fn(ValueRef<'_>, &MemberPath<'_>) -> Result<T, ProposalError>,
) -> Result<Vec<T>, ProposalError> {
    list.elements().enumerate().map(|(index, element)| read(element, &at.element(index))).collect()
}

/// Current place. It becomes text only for an error.
#[derive(Clone, Copy)]
struct MemberPath<'p> {
    outer: Option<&'p Self>,
    token: PathToken,
}

#[derive(Clone, Copy)]
enum PathToken {
    Root,
    Member(&'static str),
    Element(usize),
}

impl<'p> MemberPath<'p> {
    const fn root() -> Self {
        Self { outer: None, token: PathToken::Root }
    }

    const fn member(&'p self, name: &'static str) -> Self {
        Self { outer: Some(self), token: PathToken::Member(name) }
    }

    const fn element(&'p self, index: usize) -> Self {
        Self { outer: Some(self), token: PathToken::Element(index) }
    }

    fn refuse(&self, rule: impl Into<std::borrow::Cow<'static, str>>) -> ProposalError {
        let mut pointer = String::new();
        self.write(&mut pointer);
        ProposalError::new(ProposalCode::SchemaInvalid, pointer, rule)
    }

    /// Names of the schema need no escape in a JSON Pointer. Recursion is safe: the schema bounds the depth.
    fn write(&self, pointer: &mut String) {
        if let Some(outer) = self.outer {
            outer.write(pointer);
        }
        match self.token {
            PathToken::Root => {}
            PathToken::Member(name) => {
                pointer.push('/');
                pointer.push_str(name);
            }
            // Writing to a string does not fail.
            PathToken::Element(index) => drop(write!(pointer, "/{index}")),
        }
    }
}
