use countersign_core::Millis;

/// Limits of one proposal and its verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProposalLimits {
    pub(crate) proposal_bytes: usize,
    pub(crate) items: usize,
    pub(crate) payload_bytes: usize,
    pub(crate) file_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) time: Millis,
}

/// Defaults of PIC/1.0: 64,000 bytes of proposal, 64 items per list, 16,384 bytes of signed payload (before and after
/// canonicalising), 5 MiB per file, 500 ms. And 16 MiB for all files of one proposal, since 64 files of 5 MiB would
/// be a third of a gigabyte for one call.
impl Default for ProposalLimits {
    fn default() -> Self {
        Self {
            proposal_bytes: 64_000,
            items: 64,
            payload_bytes: 16_384,
            file_bytes: 5 * 1_024 * 1_024,
            total_bytes: 16 * 1_024 * 1_024,
            time: Millis::from_millis(500),
        }
    }
}

impl ProposalLimits {
    /// Sets the largest JSON text of a proposal, in bytes as received.
    #[must_use]
    pub const fn proposal_bytes(mut self, most: usize) -> Self {
        self.proposal_bytes = most;
        self
    }

    /// Sets the most entries of each of provenance, claims and evidence.
    #[must_use]
    pub const fn items(mut self, most: usize) -> Self {
        self.items = most;
        self
    }

    /// Sets the largest signed payload, in bytes as received and as canonicalised.
    #[must_use]
    pub const fn payload_bytes(mut self, most: usize) -> Self {
        self.payload_bytes = most;
        self
    }

    /// Sets the largest evidence file, in bytes.
    #[must_use]
    pub const fn file_bytes(mut self, most: u64) -> Self {
        self.file_bytes = most;
        self
    }

    /// Sets the most bytes of all evidence files of one proposal.
    #[must_use]
    pub const fn total_bytes(mut self, most: u64) -> Self {
        self.total_bytes = most;
        self
    }

    /// Sets the longest duration of one verification.
    #[must_use]
    pub const fn time(mut self, most: Millis) -> Self {
        self.time = most;
        self
    }
}
