use countersign_canonical_json::ValueRef;
use countersign_core::{
    Digest, ImpactClass, Millis, Principal, ServerName, SpendError, SpentId, SpentTokens, Ticket, Timestamp,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::bounds::BoundArgs;
use super::error::EndorsementError;
use crate::key_scope::{KeyScope, ScopeError};

/// Domain label of an entry's id: SHA-256 over the canonical entry without `uses`.
const ID_LABEL: &str = "countersign/endorsement-1";

/// Domain label of the id of one use in the spent set: the entry's id and the number of the use, from 1.
const USE_LABEL: &str = "countersign/endorsement-use-1";

/// Most uses of one entry. A call tries each spent use in the store before it finds a free one.
const MAX_USES: u32 = 100;

/// Most uses tried in the store for one call, if several entries back it.
const MAX_TRIES: usize = 1_000;

/// Digest of an evidence file that an operator endorses.
///
/// At the impacts money, privacy and irreversible it counts only with [bound arguments](Self::args), and each call
/// takes one of its [uses](Self::uses). At other impacts an entry without them counts any number of times.
#[derive(Clone, Debug, PartialEq)]
pub struct EndorsedDigest {
    id: Digest,
    digest: Digest,
    scope: KeyScope,
    args: Option<BoundArgs>,
    expires: Option<Timestamp>,
    counted: Option<UseCount>,
}

/// Number of uses, and their times.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UseCount {
    uses: u32,
    issued: Timestamp,
    expires: Timestamp,
}

/// Reason why an entry with a matching scope does not back a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unbacked {
    /// It binds no arguments, and the impact requires that.
    Unbound,
    /// It binds other arguments.
    OtherArgs,
}

impl EndorsedDigest {
    /// Reads one entry of a list issued at `list_issued`.
    pub(super) fn read(entry: ValueRef<'_>, list_issued: Timestamp) -> Result<Self, EndorsementError> {
        let wire = WireDigest::deserialize(entry).map_err(|_| EndorsementError::Malformed)?;
        let scope = KeyScope::new(wire.tools, wire.servers, wire.impacts, wire.principals)
            .map_err(|ScopeError| EndorsementError::Scope)?;
        if wire.expires.is_some_and(|expires| expires <= list_issued)
            || wire.issued.is_some_and(|issued| issued > list_issued)
        {
            return Err(EndorsementError::Times);
        }
        let args = BoundArgs::of_entry(entry)?;
        let uses = wire.uses.or(args.is_some().then_some(1));
        let counted = match (uses, wire.issued, wire.expires) {
            (None, _, _) => None,
            (Some(uses), _, _) if !(1..=MAX_USES).contains(&uses) => return Err(EndorsementError::Uses),
            (Some(uses), Some(issued), Some(expires)) => Some(UseCount { uses, issued, expires }),
            // why: with the list's times, signing the list again would restore spent uses.
            (Some(_), _, _) => return Err(EndorsementError::NoTimes),
        };
        Ok(Self { id: id_of(entry), digest: wire.sha256, scope, args, expires: wire.expires, counted })
    }

    /// Id of the entry: a digest of all members except the number of uses. Uses are counted under this id in every
    /// list.
    #[must_use]
    pub const fn id(&self) -> Digest {
        self.id
    }

    /// SHA-256 of the file.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Scope of the endorsement.
    #[must_use]
    pub const fn scope(&self) -> &KeyScope {
        &self.scope
    }

    /// Bound arguments; `None` if it binds none.
    #[must_use]
    pub const fn args(&self) -> Option<&BoundArgs> {
        self.args.as_ref()
    }

    /// Number of calls that it backs; `None` if uses are not counted. Default: one, if it binds arguments.
    #[must_use]
    pub fn uses(&self) -> Option<u32> {
        self.counted.map(|counted| counted.uses)
    }

    /// First moment at which it no longer counts, if it ends before the list.
    #[must_use]
    pub const fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Time of issue, if uses are counted. A spent set created later refuses them.
    #[must_use]
    pub fn issued(&self) -> Option<Timestamp> {
        self.counted.map(|counted| counted.issued)
    }

    /// Returns whether its scope allows money, privacy or irreversible although it binds no arguments. Such an entry has
    /// no effect at those impacts.
    #[must_use]
    pub fn lacks_args(&self) -> bool {
        let high = ImpactClass::ALL.into_iter().filter(|impact| impact.is_high());
        self.args.is_none() && high.into_iter().any(|impact| self.scope.allows_impact(impact))
    }

    pub(super) fn is_in_scope(
        &self,
        tool: &str,
        server: Option<&ServerName>,
        impacts: &[ImpactClass],
        principal: Option<&Principal>,
        now: Timestamp,
    ) -> bool {
        self.expires.is_none_or(|expires| now < expires)
            && self.scope.allows_tool(tool)
            && self.scope.allows_server(server)
            && impacts.iter().all(|impact| self.scope.allows_impact(*impact))
            && self.scope.allows_principal(principal)
    }

    /// Checks it against a call's arguments. Returns its uses, if counted.
    pub(super) fn back(
        &self,
        args: ValueRef<'_>,
        args_digest: Digest,
        impacts: &[ImpactClass],
        list_expires: Timestamp,
    ) -> Result<Option<UsesOfEntry>, Unbacked> {
        match &self.args {
            Some(bound) if !bound.allows(args, args_digest) => return Err(Unbacked::OtherArgs),
            None if impacts.iter().any(|impact| impact.is_high()) => return Err(Unbacked::Unbound),
            Some(_) | None => {}
        }
        Ok(self.counted.map(|counted| UsesOfEntry {
            id: self.id,
            ends: counted.expires.min(list_expires),
            counted,
        }))
    }
}

/// Uses of an entry that backs a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsesOfEntry {
    id: Digest,
    counted: UseCount,
    /// First moment at which it no longer counts: its own end or its list's.
    ends: Timestamp,
}

impl UsesOfEntry {
    /// Returns each use in order. why: a use is remembered until the entry's own end, as the list may be signed again
    /// with a later one.
    fn each(self, skew: Millis) -> impl Iterator<Item = (SpentEndorsement, Ticket)> {
        let keep_until = self.counted.expires.saturating_add(skew);
        (1..=self.counted.uses).map(move |number| {
            let id = Digest::of_fields(USE_LABEL, [self.id.as_bytes(), &u64::from(number).to_be_bytes()]);
            let ticket = Ticket::new(SpentId::new(id), self.counted.issued, keep_until);
            (SpentEndorsement { id: self.id, number }, ticket)
        })
    }
}

/// Uses of the entries that back one file for a call, which takes one of them. Empty if it need not take any.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndorsedUses(pub(super) Vec<UsesOfEntry>);

impl EndorsedUses {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Spends the first free use.
    pub(crate) fn spend(
        &self,
        store: &dyn SpentTokens,
        now: Timestamp,
        skew: Millis,
    ) -> Result<SpentEndorsement, SpendError> {
        let mut live = self.0.iter().filter(|entry| now < entry.ends).peekable();
        if live.peek().is_none() {
            return Err(SpendError::Expired);
        }
        let mut refused = SpendError::Spent;
        for (spent, ticket) in live.flat_map(|entry| entry.each(skew)).take(MAX_TRIES) {
            match store.spend(&ticket, now) {
                Ok(()) => return Ok(spent),
                Err(SpendError::Spent) => {}
                Err(error @ (SpendError::TooNew | SpendError::ClockAhead)) => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }
}

/// Use of an endorsement, taken by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpentEndorsement {
    id: Digest,
    number: u32,
}

impl SpentEndorsement {
    /// Id of the endorsement ([`EndorsedDigest::id`]).
    #[must_use]
    pub const fn id(&self) -> Digest {
        self.id
    }

    /// Number of the use, from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }
}

fn id_of(entry: ValueRef<'_>) -> Digest {
    let text = entry.canonical_text_of(|name| name != "uses");
    Digest::of_fields(ID_LABEL, [text.as_bytes()])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireDigest {
    sha256: Digest,
    #[serde(default, deserialize_with = "present")]
    tools: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    servers: Option<Vec<ServerName>>,
    #[serde(default, deserialize_with = "present")]
    impacts: Option<Vec<ImpactClass>>,
    #[serde(default, deserialize_with = "present")]
    principals: Option<Vec<Principal>>,
    #[serde(default, deserialize_with = "present")]
    issued: Option<Timestamp>,
    #[serde(default, deserialize_with = "present")]
    expires: Option<Timestamp>,
    #[serde(default, deserialize_with = "present")]
    uses: Option<u32>,
    // Read by `BoundArgs`, from the value itself.
    #[serde(default, rename = "args")]
    _args: Option<IgnoredAny>,
    #[serde(default, rename = "bounds")]
    _bounds: Option<IgnoredAny>,
}

/// Reads an optional member that is present. why: `null` is refused, as `null` in place of a limit would lift it.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
