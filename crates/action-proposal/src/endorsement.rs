//! Lists of digests that operators endorse.

mod bounds;
mod digests;
mod entry;
mod error;
mod list;

pub use bounds::{ArgBound, ArgRule, BoundArgs};
pub(crate) use digests::BackedCall;
pub use digests::EndorsedDigests;
pub use entry::{EndorsedDigest, SpentEndorsement};
pub(crate) use entry::{EndorsedUses, Unbacked};
pub use error::EndorsementError;
pub use list::EndorsementDraft;
