use std::fmt;

use countersign_core::Digest;
use serde::{Deserialize, Serialize};

/// Most claims and most pieces of evidence in a summary.
const MAX_CLAIMS: usize = 16;
const MAX_EVIDENCE: usize = 32;

/// Most cited ids kept of one claim.
const MAX_CITED: usize = 8;

/// Longest text and longest id in a summary, in bytes.
const TEXT_BYTES: usize = 400;
const ID_BYTES: usize = 64;

/// Gate's findings about the action proposal of a pending call.
///
/// Information for the approver. An approval does not bind it: when the agent repeats the call, the gate judges the
/// proposal of the repeated call. Intent, claims and ids are the agent's text, cut to length; escape them before they
/// reach a terminal or a page.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WireSummary")]
pub struct ProposalSummary {
    profile: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impact: Option<String>,
    intent: String,
    claims: Vec<ClaimSummary>,
    claims_omitted: u64,
    evidence: Vec<EvidenceSummary>,
    evidence_omitted: u64,
}

impl ProposalSummary {
    /// Starts a summary with the profile that judged the proposal and the agent's stated intent.
    #[must_use]
    pub fn new(profile: &str, intent: &str) -> Self {
        Self {
            profile: cut(profile, ID_BYTES),
            code: None,
            impact: None,
            intent: cut(intent, TEXT_BYTES),
            claims: Vec::new(),
            claims_omitted: 0,
            evidence: Vec::new(),
            evidence_omitted: 0,
        }
    }

    /// Sets the code of the refusal, for a proposal that does not verify.
    #[must_use]
    pub fn refused(self, code: &str) -> Self {
        Self { code: Some(cut(code, ID_BYTES)), ..self }
    }

    /// Sets the effective impact, for a proposal that verified.
    #[must_use]
    pub fn impact(self, impact: &str) -> Self {
        Self { impact: Some(cut(impact, ID_BYTES)), ..self }
    }

    /// Adds a claim and its cited ids. Keeps the first 16 claims and counts the rest.
    #[must_use]
    pub fn claim<'a>(mut self, text: &str, cited: impl IntoIterator<Item = &'a str>) -> Self {
        if self.claims.len() < MAX_CLAIMS {
            let mut cited = cited.into_iter();
            let evidence = cited.by_ref().take(MAX_CITED).map(|id| cut(id, ID_BYTES)).collect();
            let omitted = count(cited.count());
            self.claims.push(ClaimSummary { text: cut(text, TEXT_BYTES), evidence, omitted });
        } else {
            self.claims_omitted = self.claims_omitted.saturating_add(1);
        }
        self
    }

    /// Adds a piece of evidence. Keeps the first 32 and counts the rest.
    #[must_use]
    pub fn evidence(mut self, evidence: EvidenceSummary) -> Self {
        if self.evidence.len() < MAX_EVIDENCE {
            self.evidence.push(evidence);
        } else {
            self.evidence_omitted = self.evidence_omitted.saturating_add(1);
        }
        self
    }

    /// Profile that judged the proposal.
    #[must_use]
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// Code of the refusal; `None` if the proposal verified.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Effective impact; `None` if the proposal did not verify.
    #[must_use]
    pub fn effective_impact(&self) -> Option<&str> {
        self.impact.as_deref()
    }

    /// Intent that the agent stated.
    #[must_use]
    pub fn intent(&self) -> &str {
        &self.intent
    }

    /// The first claims, in the proposal's order.
    #[must_use]
    pub fn claims(&self) -> &[ClaimSummary] {
        &self.claims
    }

    /// Number of omitted claims.
    #[must_use]
    pub const fn claims_omitted(&self) -> u64 {
        self.claims_omitted
    }

    /// The first pieces of evidence, in the proposal's order.
    #[must_use]
    pub fn evidence_entries(&self) -> &[EvidenceSummary] {
        &self.evidence
    }

    /// Number of omitted pieces of evidence.
    #[must_use]
    pub const fn evidence_omitted(&self) -> u64 {
        self.evidence_omitted
    }
}

/// why: the agent wrote most of it, so only the verdict is printed.
impl fmt::Debug for ProposalSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProposalSummary")
            .field("profile", &self.profile)
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

/// Claim of the agent, unverified.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSummary {
    text: String,
    evidence: Vec<String>,
    omitted: u64,
}

impl ClaimSummary {
    /// The claim.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first ids that it cites.
    #[must_use]
    pub fn evidence(&self) -> &[String] {
        &self.evidence
    }

    /// Number of omitted ids.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

/// why: the agent wrote it, so its text is not printed.
impl fmt::Debug for ClaimSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimSummary").field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

/// One piece of evidence and its verification result.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceSummary {
    id: String,
    kind: EvidenceForm,
    verified: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    endorsed: bool,
}

/// Form of a piece of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EvidenceForm {
    /// A file, by its SHA-256.
    Hash,
    /// A signed payload.
    Sig,
}

impl EvidenceForm {
    /// The stable text: `hash` or `sig`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Sig => "sig",
        }
    }
}

impl EvidenceSummary {
    /// Creates a piece of evidence that was not verified.
    #[must_use]
    pub fn unverified(id: &str, kind: EvidenceForm) -> Self {
        Self { id: cut(id, ID_BYTES), kind, verified: false, digest: None, key: None, endorsed: false }
    }

    /// Creates a verified file with this SHA-256. `endorsed` states whether an operator endorsed the digest.
    #[must_use]
    pub fn file(id: &str, digest: Digest, endorsed: bool) -> Self {
        let kind = EvidenceForm::Hash;
        Self { verified: true, digest: Some(digest), endorsed, ..Self::unverified(id, kind) }
    }

    /// Creates a verified payload with this SHA-256, signed by the key with this id.
    #[must_use]
    pub fn signature(id: &str, digest: Digest, key: &str) -> Self {
        let (kind, key) = (EvidenceForm::Sig, Some(cut(key, ID_BYTES)));
        Self { verified: true, digest: Some(digest), key, ..Self::unverified(id, kind) }
    }

    /// Id of the evidence entry.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Form of the evidence.
    #[must_use]
    pub const fn kind(&self) -> EvidenceForm {
        self.kind
    }

    /// Returns `true` if it verified.
    #[must_use]
    pub const fn is_verified(&self) -> bool {
        self.verified
    }

    /// SHA-256 of the file or of the signed payload; `None` if it did not verify.
    #[must_use]
    pub const fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Keyring id of the signing key; `None` for a file.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns `true` if an operator endorsed the file's digest.
    #[must_use]
    pub const fn is_endorsed(&self) -> bool {
        self.endorsed
    }
}

/// why: the agent chose the id, so it is not printed.
impl fmt::Debug for EvidenceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvidenceSummary")
            .field("kind", &self.kind)
            .field("verified", &self.verified)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSummary {
    profile: String,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    impact: Option<String>,
    intent: String,
    claims: Vec<ClaimSummary>,
    claims_omitted: u64,
    evidence: Vec<EvidenceSummary>,
    evidence_omitted: u64,
}

/// A summary exceeds its limits.
#[derive(Debug, thiserror::Error)]
#[error("the proposal summary is too long")]
struct TooLong;

/// why: a store is untrusted input too, so its text keeps the same limits.
impl TryFrom<WireSummary> for ProposalSummary {
    type Error = TooLong;

    fn try_from(wire: WireSummary) -> Result<Self, TooLong> {
        let is_short = |text: &str, most: usize| text.len() <= most.saturating_add(CUT.len());
        let is_id = |id: &str| is_short(id, ID_BYTES);
        let claims = wire.claims.len() <= MAX_CLAIMS
            && wire.claims.iter().all(|claim| {
                let cited = &claim.evidence;
                is_short(&claim.text, TEXT_BYTES)
                    && cited.len() <= MAX_CITED
                    && cited.iter().all(|id| is_id(id))
            });
        let evidence = wire.evidence.len() <= MAX_EVIDENCE
            && wire.evidence.iter().all(|piece| is_id(&piece.id) && piece.key.as_deref().is_none_or(is_id));
        let names = [Some(&wire.profile), wire.code.as_ref(), wire.impact.as_ref()];
        let names = names.into_iter().flatten().all(|name| is_id(name));
        if !(claims && evidence && names && is_short(&wire.intent, TEXT_BYTES)) {
            return Err(TooLong);
        }
        let WireSummary { profile, code, impact, intent, claims, claims_omitted, evidence, evidence_omitted } =
            wire;
        Ok(Self { profile, code, impact, intent, claims, claims_omitted, evidence, evidence_omitted })
    }
}

/// Mark at the end of a cut text.
const CUT: &str = "\u{2026}";

/// Returns the text, cut at a character boundary and marked with [`CUT`] if it is too long.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let kept =
        text.char_indices().map(|(at, c)| at.saturating_add(c.len_utf8())).take_while(|end| *end <= most);
    let end = kept.last().unwrap_or_default();
    format!("{}{CUT}", text.get(..end).unwrap_or_default())
}

fn count(items: usize) -> u64 {
    items.try_into().unwrap_or(u64::MAX)
}
