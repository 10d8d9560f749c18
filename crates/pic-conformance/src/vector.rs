use countersign_action_proposal::Profile;
use countersign_core::{Digest, ImpactClass, Millis};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::manifest::{Expected, Mode, VectorEntry, is_plain};
use crate::report::VectorFault;
use crate::spans::MemberTexts;

/// The folder of the evidence, as vectors name it from the root of the reference's repository.
const ARTIFACTS: &str = "conformance/artifacts";

/// One vector file. Its other members are documentation.
#[derive(Debug)]
pub(crate) struct Vector<'a> {
    pub(crate) said: VectorMembers,
    /// The text of every member.
    spans: MemberTexts<'a>,
    /// The texts of the members of `options` and `call`.
    options: MemberTexts<'a>,
    call: MemberTexts<'a>,
}

/// The members that are read as values.
#[derive(Debug, Deserialize)]
pub(crate) struct VectorMembers {
    id: String,
    mode: Option<Mode>,
    expected: Option<Expected>,
    expected_error_code: Option<String>,
    /// The vector's profile, if it names one. It must be the run's.
    profile: Option<String>,
    pub(crate) expected_canonical_bytes_hex: Option<String>,
    pub(crate) expected_sha256_hex: Option<String>,
    pub(crate) options: Option<Options>,
    proposal_text: Option<String>,
    keyring_text: Option<String>,
    policy_text: Option<String>,
    live_args_text: Option<String>,
    pub(crate) call: Option<CallMembers>,
    pub(crate) audience: Option<String>,
    pub(crate) now: Option<String>,
    #[serde(default)]
    pub(crate) limits: Sizes,
    #[serde(default)]
    pub(crate) high: Vec<ImpactClass>,
}

/// Limits other than PIC/1.0's own.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sizes {
    pub(crate) proposal_bytes: Option<usize>,
    pub(crate) items: Option<usize>,
    pub(crate) payload_bytes: Option<usize>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) total_bytes: Option<u64>,
}

/// Options of the reference's pipeline; no others are allowed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    verify_evidence: Option<bool>,
    strict_trust: Option<bool>,
    expected_tool: Option<String>,
    tool_name: Option<String>,
    #[serde(rename = "policy")]
    _policy: Option<IgnoredAny>,
    pub(crate) limits: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    evidence_root_dir: Option<String>,
    pub(crate) time_budget_ms: Option<Millis>,
}

/// Facts of the call that the gate would know.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallMembers {
    pub(crate) tool: Option<String>,
    pub(crate) server: Option<String>,
    #[serde(rename = "args")]
    _args: Option<IgnoredAny>,
    pub(crate) impact: Option<ImpactClass>,
    pub(crate) call_id: Option<String>,
    pub(crate) principal: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) registry_version: Option<u64>,
    pub(crate) ask: Option<Digest>,
    pub(crate) plan: Option<Digest>,
}

/// A present member, `null` included.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl<'a> Vector<'a> {
    /// Reads a vector file and compares it with its entry in the manifest.
    pub(crate) fn read(bytes: &'a [u8], entry: &VectorEntry, profile: Profile) -> Result<Self, VectorFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| invalid("not UTF-8"))?;
        let said: VectorMembers =
            serde_json::from_str(text).map_err(|error| VectorFault::Vector(error.to_string()))?;
        let spans = MemberTexts::split(text).map_err(VectorFault::Vector)?;
        let options = spans.object("options").map_err(VectorFault::Vector)?;
        let call = spans.object("call").map_err(VectorFault::Vector)?;
        let vector = Self { said, spans, options, call };
        vector.said.check(entry).map_err(|what| VectorFault::Drift(what.to_owned()))?;
        if vector.said.profile.as_deref().is_some_and(|name| name != profile.as_str()) {
            return Err(invalid("the vector is for another profile"));
        }
        Ok(vector)
    }

    /// The input of a canonicalization vector.
    pub(crate) fn input(&self) -> Option<&[u8]> {
        self.spans.text("input").map(str::as_bytes)
    }

    /// The proposal's bytes as received, if there is a proposal.
    pub(crate) fn proposal(&self) -> Result<Option<&[u8]>, VectorFault> {
        one_of(self.spans.text("proposal"), self.said.proposal_text.as_deref(), "proposal")
    }

    /// The keyring's bytes, if there is one.
    pub(crate) fn keyring(&self) -> Result<Option<&[u8]>, VectorFault> {
        one_of(unless_null(self.spans.text("embedded_keyring")), self.said.keyring_text.as_deref(), "keyring")
    }

    /// The policy's bytes, if there is one.
    pub(crate) fn policy(&self) -> Result<Option<&[u8]>, VectorFault> {
        one_of(unless_null(self.options.text("policy")), self.said.policy_text.as_deref(), "policy")
    }

    /// The envelope of endorsed digests and its trust root, if present.
    pub(crate) fn endorsed(&self) -> Option<(&[u8], &[u8])> {
        let (envelope, root) = self.spans.text("endorsed").zip(self.spans.text("trust_root"))?;
        Some((envelope.as_bytes(), root.as_bytes()))
    }

    /// The live call's arguments as received, if there is a live call.
    pub(crate) fn live_args(&self) -> Result<Option<&[u8]>, VectorFault> {
        one_of(self.spans.text("live_args"), self.said.live_args_text.as_deref(), "live_args")
    }

    /// The arguments that the gate would bind: those of `call`, or else the live ones.
    pub(crate) fn args(&self) -> Result<Option<&[u8]>, VectorFault> {
        match self.call.text("args") {
            Some(args) => Ok(Some(args.as_bytes())),
            None => self.live_args(),
        }
    }

    /// The called tool.
    pub(crate) fn tool(&self) -> Option<&str> {
        let named = self.said.call.as_ref().and_then(|call| call.tool.as_deref());
        named.or_else(|| {
            let options = self.said.options.as_ref()?;
            options.expected_tool.as_deref().or(options.tool_name.as_deref())
        })
    }

    /// Whether evidence is verified, if the vector states it.
    pub(crate) fn verify_evidence(&self) -> Option<bool> {
        self.said.options.as_ref()?.verify_evidence
    }

    /// Whether claimed trust is ignored, if the vector states it.
    pub(crate) fn strict_trust(&self) -> Option<bool> {
        self.said.options.as_ref()?.strict_trust
    }

    /// The evidence folder, relative to the suite's artifacts; empty for the artifacts folder itself.
    pub(crate) fn evidence_folder(&self) -> Result<Option<&str>, VectorFault> {
        let Some(named) = self.said.options.as_ref().and_then(|options| options.evidence_root_dir.as_deref())
        else {
            return Ok(None);
        };
        let below = match named.trim_end_matches('/').strip_prefix(ARTIFACTS) {
            Some("") => return Ok(Some("")),
            Some(rest) => rest.strip_prefix('/'),
            None => None,
        };
        match below {
            Some(below) if is_plain(below) => Ok(Some(below)),
            _ => Err(invalid("evidence_root_dir is not within conformance/artifacts")),
        }
    }
}

fn unless_null(text: Option<&str>) -> Option<&str> {
    text.filter(|text| *text != "null")
}

fn one_of<'v>(
    value: Option<&'v str>,
    text: Option<&'v str>,
    what: &str,
) -> Result<Option<&'v [u8]>, VectorFault> {
    if value.is_some() && text.is_some() {
        return Err(VectorFault::Vector(format!("{what} is there twice")));
    }
    Ok(value.or(text).map(str::as_bytes))
}

pub(crate) fn invalid(what: &str) -> VectorFault {
    VectorFault::Vector(what.to_owned())
}

impl VectorMembers {
    fn check(&self, entry: &VectorEntry) -> Result<(), &'static str> {
        if self.id != entry.id {
            return Err("the file has another id than the manifest");
        }
        if self.mode.is_some_and(|mode| mode != entry.mode) {
            return Err("the file has another mode than the manifest");
        }
        if entry.mode == Mode::Canonicalization {
            return Ok(());
        }
        if self.mode.is_none() && entry.mode != Mode::Core {
            return Err("the file does not say its mode");
        }
        if self.expected != Some(entry.expected) {
            return Err("the file has another verdict than the manifest");
        }
        if self.expected_error_code != entry.expected_error_code {
            return Err("the file has another expected_error_code than the manifest");
        }
        Ok(())
    }
}
