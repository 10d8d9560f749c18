use countersign_canonical_json::{Kind, ValueRef};
use countersign_core::{Digest, Timestamp};

use crate::HashEntry;
use countersign_core::rfc3339::{self, Offset};

/// Version of the attestation object (PIC/1.0, *Evidence*, section 6).
pub const ATTESTATION_VERSION: &str = "PIC-ATT/1.0";

/// Member that makes a payload an attestation object.
pub(super) const VERSION_MEMBER: &str = "attestation_version";

/// Broken rule of an entry, and its place. Never a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// Member of the entry, or `payload/` and the member of the signed object.
    pub(crate) place: &'static str,
    pub(crate) rule: &'static str,
}

impl Broken {
    pub(super) const fn new(place: &'static str, rule: &'static str) -> Self {
        Self { place, rule }
    }
}

/// Optional member of an attestation object, with its place for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    place: &'static str,
    value: Option<ValueRef<'a>>,
}

impl<'a> Member<'a> {
    pub(super) const fn is_there(self) -> bool {
        self.value.is_some()
    }

    pub(super) const fn broken(self, rule: &'static str) -> Broken {
        Broken::new(self.place, rule)
    }

    pub(super) fn text(self) -> Result<&'a str, Broken> {
        self.value.and_then(ValueRef::as_str).ok_or(self.broken("must be there and a string"))
    }

    /// Compares a text with the expected one, byte by byte.
    pub(super) fn must_be(self, expected: Option<&str>) -> Result<(), Broken> {
        let expected =
            expected.ok_or(self.broken("cannot be compared, as there is nothing to compare it with"))?;
        if self.text()? == expected { Ok(()) } else { Err(self.broken("must be what it is here")) }
    }

    /// Compares a digest with the expected one, in constant time.
    pub(super) fn must_be_digest(self, expected: Digest) -> Result<(), Broken> {
        let digest: Digest =
            self.text()?.parse().map_err(|_| self.broken("must be 64 lower-case hexadecimal digits"))?;
        if digest == expected { Ok(()) } else { Err(self.broken("must be the digest of what is here")) }
    }

    /// Requires the expected digest; without an expected digest, the member must be absent.
    pub(super) fn must_be_digest_if_any(self, expected: Option<Digest>) -> Result<(), Broken> {
        match expected {
            Some(expected) => self.must_be_digest(expected),
            None if self.is_there() => Err(self.broken("must be left out where the call has none")),
            None => Ok(()),
        }
    }

    pub(super) fn must_be_number(self, expected: Option<u64>) -> Result<(), Broken> {
        let number =
            self.value.and_then(ValueRef::as_u64).ok_or(self.broken("must be there and a whole number"))?;
        let expected =
            expected.ok_or(self.broken("cannot be compared, as there is nothing to compare it with"))?;
        if number == expected { Ok(()) } else { Err(self.broken("must be what it is here")) }
    }

    /// Requires the same texts in the same order.
    pub(super) fn must_be_list<'e>(
        self,
        expected: impl ExactSizeIterator<Item = &'e str>,
    ) -> Result<(), Broken> {
        let rule = self.broken("must be the proposal's, in its order");
        let list = self.value.ok_or(rule)?;
        if list.elements().len() != expected.len() {
            return Err(rule);
        }
        let same = |(id, expected): (ValueRef<'_>, &str)| id.as_str() == Some(expected);
        if list.elements().zip(expected).all(same) { Ok(()) } else { Err(rule) }
    }

    /// Requires an object of `id` and `sha256` for each of the files, in the same order.
    pub(super) fn must_be_files(self, expected: &[&HashEntry]) -> Result<(), Broken> {
        let rule = self.broken("must be the proposal's files, in their order");
        let list = self.value.filter(|list| list.kind() == Kind::Array).ok_or(rule)?;
        let same = |(file, expected): (ValueRef<'_>, &&HashEntry)| {
            let text = |name| file.get(name).and_then(ValueRef::as_str);
            file.kind() == Kind::Object
                && file.len() == 2
                && text("id") == Some(&*expected.id)
                && text("sha256").and_then(|text| text.parse().ok()) == Some(expected.sha256)
        };
        let as_many = list.elements().len() == expected.len();
        if as_many && list.elements().zip(expected).all(same) { Ok(()) } else { Err(rule) }
    }

    /// Parses an expiry: the first moment at which something no longer counts.
    pub(super) fn end(self) -> Result<Timestamp, Broken> {
        let time = rfc3339::parse_bound(self.text()?, Offset::Required);
        time.ok_or(self.broken("must be a time of RFC 3339 with an offset"))
    }

    /// Parses a time of issue. A time before 1970 is refused.
    pub(super) fn moment(self) -> Result<Timestamp, Broken> {
        let time = rfc3339::parse(self.text()?, Offset::Required);
        time.map_err(|_| self.broken("must be a time of RFC 3339 with an offset, from 1970 on"))
    }
}

/// Defines the known members: one table for their names and their places.
macro_rules! members {
    ($($field:ident = $name:literal),+ $(,)?) => {
        /// Members of an attestation object. why: filled in one walk, which is faster than a look-up per member.
        #[derive(Debug)]
        pub(super) struct ProposalMembers<'a> {
            $(pub(super) $field: Member<'a>,)+
            /// Whether there is any other member.
            pub(super) unknown: bool,
            /// Whether one of those begins with `x_`.
            pub(super) unknown_extension: bool,
        }

        impl<'a> ProposalMembers<'a> {
            pub(super) fn of(object: ValueRef<'a>) -> Self {
                let mut members = Self {
                    $($field: Member { place: concat!("payload/", $name), value: None },)+
                    unknown: false,
                    unknown_extension: false,
                };
                for (name, value) in object.members() {
                    match name {
                        $($name => members.$field.value = Some(value),)+
                        // Checked already, when the mode of the payload was decided.
                        VERSION_MEMBER => {}
                        other => {
                            members.unknown = true;
                            members.unknown_extension |= other.starts_with("x_");
                        }
                    }
                }
                members
            }
        }
    };
}

members! {
    tool = "tool",
    impact = "impact",
    args_digest = "args_digest",
    claims_digest = "claims_digest",
    intent_digest = "intent_digest",
    provenance_ids = "provenance_ids",
    audience = "audience",
    issued_at = "issued_at",
    expires_at = "expires_at",
    call_id = "x_call_id",
    principal = "x_principal",
    agent = "x_agent",
    session = "x_session",
    server = "x_server",
    registry_version = "x_registry_version",
    files = "x_files",
    evidence_id = "x_evidence_id",
    key_id = "x_key_id",
    nonce = "x_nonce",
    ask = "x_ask",
    plan_root = "x_plan_root",
}
