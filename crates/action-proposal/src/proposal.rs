use std::collections::BTreeSet;
use std::fmt;

use countersign_canonical_json::{Canonical, JsonErrorKind, Kind, Limits, Recipe, ValueRef, read};
use countersign_core::{Digest, ImpactClass};

use crate::schema::{ProposalMembers, read_members};
use crate::{
    Claim, EvidenceEntry, HashEntry, Profile, ProposalCode, ProposalError, ProposalLimits, Provenance,
};

/// Most characters by which the reference's text of a number with a fraction or exponent exceeds the canonical one:
/// `1.2345678901234567e+16` for seventeen digits.
const LONGER_NUMBER: usize = 5;

/// Largest ratio of the reference's count to the received bytes: `1e20,` becomes 21 digits and more.
const MOST_GROWTH: usize = 8;

/// Statement of an agent about an intended call and its reasons. None of it is trusted.
///
/// The text was parsed once, strictly, within limits, against the PIC/1.0 schema, with distinct provenance ids.
/// Digests and members come from the same parsed value.
///
/// ```
/// use countersign_action_proposal::{ActionProposal, Profile, ProposalVerifier, ProposedCall};
/// use countersign_core::{Digest, SystemClock};
/// let text = br#"{
///     "protocol": "PIC/1.0",
///     "intent": "pay the invoice of March",
///     "impact": "money",
///     "provenance": [{"id": "mail", "trust": "trusted"}],
///     "claims": [{"text": "the mail says that it is due", "evidence": ["mail"]}],
///     "action": {"tool": "payments_send", "args": {"amount": 500}}
/// }"#;
/// let verifier = ProposalVerifier::builder(Profile::Strict).build()?;
/// let proposal = verifier.parse(text)?;
/// let call = ProposedCall::to_tool_named("payments_send").args(Digest::of(br#"{"amount":500}"#));
/// // The agent calls its mail trusted, without evidence.
/// let refused = proposal.verify(&verifier, &call, &SystemClock::new()).unwrap_err();
/// assert_eq!(refused.code().as_str(), "PIC_EVIDENCE_REQUIRED");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ActionProposal {
    // INVARIANT: it matches the schema, and the members below were read from it.
    canonical: Canonical,
    digest: Digest,
    args_digest: Digest,
    claims_digest: Digest,
    intent_digest: Digest,
    intent: Box<str>,
    impact: ImpactClass,
    provenance: Vec<Provenance>,
    claims: Vec<Claim>,
    tool: Box<str>,
    evidence: Vec<EvidenceEntry>,
}

impl ActionProposal {
    /// Parses a proposal's JSON text: limits, strict JSON, schema, distinct provenance ids. Arrays and objects may
    /// nest 128 deep.
    ///
    /// # Errors
    /// [`ProposalError`] with `PIC_LIMIT_EXCEEDED`, `PIC_INVALID_REQUEST` (not an object), `PIC_SCHEMA_INVALID` or
    /// `PIC_DUPLICATE_ID`.
    pub fn parse(json: &[u8], limits: &ProposalLimits) -> Result<Self, ProposalError> {
        Self::parse_under(json, limits, Profile::Strict)
    }

    /// Parses with the schema of a profile.
    pub(crate) fn parse_under(
        json: &[u8],
        limits: &ProposalLimits,
        profile: Profile,
    ) -> Result<Self, ProposalError> {
        let too_large = || over_limit("", "must have no more bytes than the limit");
        if json.len() > limits.proposal_bytes {
            return Err(too_large());
        }
        // The hard caps suffice: the length was checked, and no value is wider than its text.
        let canonical = read(json, Recipe::PicCjson1, &Limits::hard_caps()).map_err(|error| {
            let over_limit = matches!(
                error.kind(),
                JsonErrorKind::TooLarge | JsonErrorKind::TooDeep | JsonErrorKind::TooWide
            );
            let code = if over_limit { ProposalCode::LimitExceeded } else { ProposalCode::SchemaInvalid };
            ProposalError::new(code, "", error.to_string())
        })?;
        let value = canonical.value();
        if value.kind() != Kind::Object {
            return Err(ProposalError::new(ProposalCode::InvalidRequest, "", "must be an object"));
        }
        if counts_more_than(limits.proposal_bytes, json, &canonical) {
            return Err(too_large());
        }
        check_lists(value, limits.items)?;
        let members = read_members(value, profile)?;
        check_distinct(members.provenance.iter().map(Provenance::id), "/provenance")?;
        let digest_of = |value: ValueRef<'_>| Digest::of(value.canonical_text().as_bytes());
        let (args_digest, claims_digest) = (digest_of(members.args), digest_of(members.claims_value));
        let ProposalMembers { intent, impact, provenance, claims, tool, evidence, .. } = members;
        Ok(Self {
            digest: canonical.digest(),
            canonical,
            args_digest,
            claims_digest,
            intent_digest: Digest::of(intent.as_bytes()),
            intent,
            impact,
            provenance,
            claims,
            tool,
            evidence,
        })
    }

    /// Intent that the agent states.
    #[must_use]
    pub fn intent(&self) -> &str {
        &self.intent
    }

    /// Impact that the agent states. The effective impact is never below the operator's.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// Inputs that led to the proposal, in order.
    #[must_use]
    pub fn provenance(&self) -> &[Provenance] {
        &self.provenance
    }

    /// Claims, in order.
    #[must_use]
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Name of the proposed tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Proposed arguments, an object.
    #[must_use]
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "what was read is of the schema")]
    pub fn args(&self) -> ValueRef<'_> {
        let args = self.canonical.value().get("action").and_then(|action| action.get("args"));
        args.expect("the schema has arguments")
    }

    /// Evidence entries, in order; empty without a list.
    #[must_use]
    pub fn evidence(&self) -> &[EvidenceEntry] {
        &self.evidence
    }

    /// The proposal in canonical form.
    pub(crate) const fn canonical(&self) -> &Canonical {
        &self.canonical
    }

    /// File entries of the evidence, in order.
    pub(crate) fn hash_entries(&self) -> impl Iterator<Item = &HashEntry> {
        self.evidence.iter().filter_map(|entry| match entry {
            EvidenceEntry::Hash(entry) => Some(entry),
            EvidenceEntry::Signature(_) => None,
        })
    }

    /// SHA-256 of the proposal's canonical form (PIC-CJSON/1.0).
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// SHA-256 of the arguments' canonical form (PIC-CJSON/1.0, section 8.1).
    #[must_use]
    pub const fn args_digest(&self) -> Digest {
        self.args_digest
    }

    /// SHA-256 of the claims' canonical form (PIC-CJSON/1.0, section 8.2).
    #[must_use]
    pub const fn claims_digest(&self) -> Digest {
        self.claims_digest
    }

    /// SHA-256 of the intent's UTF-8 bytes, without quotation marks or escapes (PIC-CJSON/1.0, section 8.3).
    #[must_use]
    pub const fn intent_digest(&self) -> Digest {
        self.intent_digest
    }
}

/// why: a proposal may hold personal data, so only its size, impact and digest are printed.
impl fmt::Debug for ActionProposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActionProposal")
            .field("length", &self.canonical.as_str().len())
            .field("impact", &self.impact)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

fn over_limit(place: &'static str, rule: &'static str) -> ProposalError {
    ProposalError::new(ProposalCode::LimitExceeded, place, rule)
}

/// Checks the sizes of the three lists, before the schema does.
fn check_lists(value: ValueRef<'_>, most: usize) -> Result<(), ProposalError> {
    for (name, place) in [("provenance", "/provenance"), ("claims", "/claims"), ("evidence", "/evidence")] {
        let list = value.get(name).filter(|list| list.kind() == Kind::Array);
        if list.is_some_and(|list| list.len() > most) {
            return Err(over_limit(place, "must have no more entries than the limit"));
        }
    }
    Ok(())
}

/// Compares ids byte by byte, without trimming, folding or normalising.
pub(crate) fn check_distinct<'i>(
    ids: impl Iterator<Item = &'i str>,
    place: &'static str,
) -> Result<(), ProposalError> {
    let mut seen = BTreeSet::new();
    for (index, id) in ids.enumerate() {
        if !seen.insert(id) {
            let place = format!("{place}/{index}/id");
            return Err(ProposalError::new(
                ProposalCode::DuplicateId,
                place,
                "must be no id of an entry before it",
            ));
        }
    }
    Ok(())
}

/// Returns whether a proposal exceeds a limit of bytes by the reference's count: the length of the JSON text that it
/// would write, with a space after each comma and colon.
///
/// INVARIANT: the result is never below the reference's count, so a text that is too large there is refused here.
fn counts_more_than(most: usize, received: &[u8], canonical: &Canonical) -> bool {
    received.len().saturating_mul(MOST_GROWTH) > most && counted(received, canonical) > most
}

fn counted(received: &[u8], canonical: &Canonical) -> usize {
    let (blanks, numbers) = outside_of_strings(received);
    canonical.bytes().len().saturating_add(blanks).saturating_add(numbers.saturating_mul(LONGER_NUMBER))
}

/// Counts the commas and colons, and the points and exponents of numbers, outside of strings.
fn outside_of_strings(received: &[u8]) -> (usize, usize) {
    let (mut blanks, mut numbers) = (0_usize, 0_usize);
    let (mut in_string, mut escaped, mut before) = (false, false, b' ');
    for &byte in received {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else {
            match byte {
                b'"' => in_string = true,
                b',' | b':' => blanks = blanks.saturating_add(1),
                b'.' => numbers = numbers.saturating_add(1),
                b'e' | b'E' if before.is_ascii_digit() => numbers = numbers.saturating_add(1),
                _ => {}
            }
        }
        before = byte;
    }
    (blanks, numbers)
}
