//! Part of step 7: does a grant cover a call that came without an approval?

use countersign_approval_token::{Approval, verify_grant};
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::{CallFacts, Timestamp};
use countersign_registry::{Constraint, RegistryView};
use serde::Deserialize as _;

use crate::settings::ApprovalSettings;

/// Finds a grant that covers the call. A store that fails has none: the call then needs a person's answer.
pub(crate) fn find_grant(
    settings: &ApprovalSettings,
    call: &CallFacts,
    args: &Canonical,
    view: &RegistryView,
    now: Timestamp,
) -> Option<Approval> {
    let grants = settings.terms.grants.as_ref()?;
    let limits = (settings.terms.verify.skew, grants.max_lifetime);
    let stored = grants.store.grants_for(call, now).ok()?;
    stored.iter().find_map(|grant| {
        let verified =
            verify_grant(grant.as_str(), &grants.keys, call, now, limits, |text| holds(text, args)).ok()?;
        (!view.is_key_revoked(verified.key_id())).then_some(verified)
    })
}

/// Returns whether all conditions of a grant hold for the arguments. No conditions hold for none.
pub(crate) fn holds(conditions: &str, args: &Canonical) -> bool {
    let read = read(conditions.as_bytes(), Recipe::Jcs1, &Limits::default());
    let conditions = read.ok().and_then(|text| Vec::<Constraint>::deserialize(text.value()).ok());
    conditions.is_some_and(|all| !all.is_empty() && all.iter().all(|one| one.holds(args.value())))
}
