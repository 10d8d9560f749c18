#![doc = include_str!("../README.md")]

mod load;
mod session;

#[cfg(test)]
mod tests;

// The public interface is this list. Each module lists the public items of the crate with the same name. A type that
// a listed signature names is listed too.

pub use load::{Countersign, CountersignBuilder, LoadError};
pub use session::{NegotiatedSession, SessionBuilder, SessionError};

/// What a host needs for its first gated call.
pub mod prelude {
    pub use crate::Countersign;
    pub use countersign_audit_log::{AuditSink, Log, LogOptions, MemorySink};
    pub use countersign_canonical_json::Canonical;
    pub use countersign_core::{AgentId, Coded, Millis, OperatorId, Principal, SessionId};
    pub use countersign_keys::SigningKey;
    pub use countersign_registry::RegistryDraft;
    pub use countersign_tlog::note::KeyName;
    pub use countersign_tool_gate::{
        AcceptedCall, ApprovalRequest, AsyncGate, BlockingPool, CallError, OwnedToolCall, Rejection,
        RejectionCode, ToolCall, ToolGate, Window,
    };
}

/// Names, digests, time, the facts of a call, and the trait of a store of spent tokens.
pub mod core {
    pub use countersign_core::{
        AgentId, Approvers, ApproversError, Audience, CallFacts, CallId, Clock, ClockError, Coded, Digest,
        DigestBuilder, DigestError, EvidenceGap, IdError, ImpactClass, ImpactError, KeyId, ManualClock,
        Millis, OperatorId, OutputTag, Principal, Recipe, RecipeError, RequestId, RunId, ServerName,
        SessionId, SpendError, SpentId, SpentTokens, StoreId, SystemClock, Ticket, TimeError, Timestamp,
        TokenId, ToolId, ToolName, error_chain, escape_hidden, is_hidden,
    };
}

/// The strict reader of JSON, and JSON in canonical form.
pub mod canonical_json {
    pub use countersign_canonical_json::{
        Canonical, DeError, Elements, JsonError, JsonErrorKind, Kind, Limits, LimitsError, Members, Part,
        Parts, Reader, SerializeError, TextPlace, ValueRef, digest, read, to_canonical,
    };
}

/// Heads, hashes and proofs of the log's Merkle tree.
pub mod merkle {
    pub use countersign_merkle::{
        ConsistencyProof, Frontier, HashError, HeadError, InclusionProof, LeafHash, MerkleTree, NodeHash,
        ProofError, RootHash, TreeError, TreeHead, verify_consistency, verify_inclusion,
    };
}

/// Keys and signatures.
pub mod keys {
    pub use countersign_keys::{
        KeyError, Keyring, KeyringError, MacKey, RootError, RunKeys, ServerSecret, Signature, SignatureError,
        SigningKey, Tag, TagError, TrustRoot, VerifyingKey,
    };

    /// Signed envelopes in the format DSSE.
    pub mod dsse {
        pub use countersign_keys::dsse::{Envelope, EnvelopeError, Verified};
    }

    /// Files that hold keys.
    pub mod file {
        pub use countersign_keys::file::{
            AnyKey, KeyFileError, read_any_key, read_log_key, read_public_key, read_server_secret,
            read_signing_key, write_log_key, write_public_key, write_server_secret, write_signing_key,
        };
    }

    /// Files that only their owner may have written.
    pub mod trusted {
        pub use countersign_keys::trusted::{FileError, UntrustedFile, read_trusted, write_public};
    }

    /// Files that hold state.
    pub mod state_file {
        pub use countersign_keys::state_file::StateFileError;
    }
}

/// Signed notes, checkpoints and the cosignatures of witnesses.
pub mod tlog {
    pub use countersign_tlog::{
        AddCheckpoint, Checkpoint, CheckpointError, Cosignature, LogKey, MAX_WITNESS_ANSWER_BYTES,
        Submission, SubmissionError, WitnessKey, WitnessRefusal, WitnessedCheckpoint, WitnessedLog,
        attach_cosignatures, cosign,
    };

    /// Signed notes.
    pub mod note {
        pub use countersign_tlog::note::{Algorithm, KeyName, NoteError, VerifierKey, VerifierKeyError};
    }
}

/// The signed list of agents and tools, and the contract of a session.
pub mod registry {
    pub use countersign_registry::{
        AgentClaims, AgentEntry, AgentError, ApprovalBranch, ApprovalChange, ApprovalRule, ApprovalTerms,
        ApprovalTermsError, ArgPlace, ArgsError, AskRule, BorrowedView, Capabilities, CapabilityRegistry,
        Constraint, ConstraintError, ContentError, ContentProblem, ContractError, DefinitionError,
        DraftError, EvidenceRule, FORMAT, FileHighWater, Finding, FreshnessError, HighWaterStore, LimitError,
        Limits, ListedTool, LoadOptions, Mark, MarkError, MemoryHighWater, NegotiateError,
        NegotiationRequest, PAYLOAD_TYPE, PlaceError, PlanRule, Rate, RefreshError, RegistryDraft,
        RegistryError, RegistrySnapshot, RegistryView, Revoked, ServerEntry, SessionContract, Severity,
        TaskRule, ToolEntry, ToolEntryBuilder, ToolRules, Wanted, agent_fingerprint, definition_digest,
        draft_schema, is_read_name, tool_fingerprint, verify_registry,
    };
}

/// The goal of a session, pinned.
pub mod pinned_ask {
    pub use countersign_pinned_ask::{AskDrift, PinError, PinnedAsk, RECIPE, UNICODE_VERSION, require_match};
}

/// Approvals of single calls and of plans, the tokens that carry them, and the questions that wait for them.
pub mod approval_token {
    pub use countersign_approval_token::{
        Approval, ApprovalError, ApprovalToken, AttestedProposal, ClaimSummary, DEFAULT_GRANT_CAP,
        DEFAULT_TTL_CAP, DenialReason, EvidenceForm, EvidenceSummary, GrantFacts, GrantTerms, GrantToken,
        Grants, MAX_GRANT_USES, MemoryGrants, MemoryPendingApprovals, MemorySpentTokens, MintError,
        MintTerms, Partial, PendingApproval, PendingApprovals, PendingDenial, PendingError, PendingState,
        ProposalSummary, SESSION_SILENCE, SessionKind, SpentApproval, StoredGrant, VerifyTerms,
        WantedEvidence, asker_of_session, grant, mint, verify, verify_grant, verify_text,
    };
}

/// Proposals that cite evidence, and their verification.
pub mod action_proposal {
    pub use countersign_action_proposal::{
        ATTESTATION_VERSION, ActionProposal, ArgBound, ArgRule, AttestError, AttestationDraft, BoundArgs,
        Claim, EndorsedDigest, EndorsedDigests, EndorsementDraft, EndorsementError, EvidenceBudget,
        EvidenceEntry, EvidenceKey, EvidenceKeyring, EvidenceResolver, HashEntry, HighImpacts, KeyScope,
        KeyStatus, KeyringError, MemoryEvidence, PolicyError, Profile, ProfileError, ProposalCode,
        ProposalError, ProposalLimits, ProposalPolicy, ProposalSpendError, ProposalVerifier,
        ProposalVerifierBuilder, ProposedCall, Provenance, ResolveError, ResolvedEvidence, SignatureEntry,
        SignedAttestation, SpentEndorsement, SpentProposal, TrustLevel, VerifiedEvidence, VerifiedProposal,
        VerifierError,
    };
    #[cfg(all(unix, feature = "evidence"))]
    pub use countersign_action_proposal::{EvidenceFolder, FolderError};
}

/// Plans that are committed before they run, and the proofs of their steps.
pub mod committed_plan {
    pub use countersign_committed_plan::{
        Amends, Breaches, BreachesError, CommitError, CommittedPlan, DYNAMIC, FinishError, HeaderProof,
        OnBreach, OpenPlace, Plan, PlanBreach, PlanContext, PlanContract, PlanError, PlanHeader, PlanLimits,
        PlanProblem, PlanRoot, PlanSealError, PlanUseError, PlannedCall, Step, StepProof, StepRun, TraceStep,
        VerifiedHeader, VerifiedStep, VerifiedTrace,
    };
}

/// The record: its entries, the signed log that keeps them, and the proofs that others verify.
pub mod audit_log {
    // Entries.
    pub use countersign_audit_log::{
        AnswerRecord, AnswerVerdict, ArchivedRecord, BeganRecord, CallRecord, ClaimsRecord, CoApproval,
        Direction, EndReason, EndRecord, Escaped, EscapedError, EvidenceKind, EvidenceRecord, GapRecord,
        GapRow, GatewayRecord, Instructions, OutcomeBy, OutcomeKind, OutcomeRecord, ProposalRecord, Record,
        RecordedTool, RecordedValue, RecordedValues, RecordedValuesError, RecoveredRecord, RefusedRecord,
        RefusedRow, SeenSums, ServerRecord, SessionRecord, Signal, SignalRecord, StandingChange,
        StandingRecord, UnrecordedAnswer, Verdict,
    };
    // Decisions as lines, written from borrowed parts.
    pub use countersign_audit_log::{
        CallOrigin, CallRecordRef, DecisionLine, EscapedRef, KnownTool, OriginRef, SubmittedDecision, ToolRef,
    };
    // Sinks.
    pub use countersign_audit_log::{AuditError, AuditSink, MemorySink};
    // The log.
    pub use countersign_audit_log::{
        CutBytes, Disk, DiskFile, Durability, FolderDisk, KnownLog, Log, LogEntries, LogEntry, LogError,
        LogNumber, LogOptions, LogProver, LogStart, LogStateError, LogStateFile, LogStates, LogSummary,
        OpenLogError, Pending, Place, RebuiltSide, VerifiedEntries, list_logs, prove_consistency,
        prove_inclusion, read_disk, read_log, verify_disk, verify_log,
    };
    // Receipts, archives and closed logs.
    pub use countersign_audit_log::{
        ArchiveBefore, ArchiveError, Archived, ClosedLog, ClosingError, ClosingNote, FileSum,
        MAX_RECEIPT_BYTES, Receipt, ReceiptError, RetireError, RetireWhich, Retired, VerifiedReceipt,
        archive_log, interrupted_retirement, retire_log, verify_closing,
    };
}

/// The gate: the decision on each call.
pub mod tool_gate {
    // The gate and its settings.
    pub use countersign_tool_gate::{
        ApprovalSettings, CheckedCall, GateLimits, GateStep, OpenError, PLAN_TOOL, PlanRootSettings,
        PlanSettings, ProposalSettings, RecordedFields, RecordedFieldsError, RefusalRate, RefusalRateError,
        Refusals, RenewError, ToolGate, ToolGateBuilder, UserCheck, commit_plan,
    };
    // A call and its answer.
    pub use countersign_tool_gate::{
        AcceptedCall, AnswerError, ApprovalDesk, ApprovalRequest, AsyncCall, AsyncGate, AsyncInFlight,
        BlockingPool, CallArgs, CallError, FinishPlanError, HaltPlanError, InFlight, NotFiled, OwnedToolCall,
        PROPOSAL_MEMBER, REQUEST_ID_MEMBER, Rejection, RejectionCode, RequestError, Retry, StartPlanError,
        ToolCall,
    };
    // Questions that wait for a person.
    pub use countersign_tool_gate::{
        ApproverAnswer, CallApprovals, CallDesk, DeskHost, EditedCall, FiledQuestion, PendingQuestions,
    };
    // Counters.
    #[cfg(feature = "metrics")]
    pub use countersign_tool_gate::METRIC_NAMES;
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub use countersign_tool_gate::SystemTicks;
    pub use countersign_tool_gate::{
        ANSWER_SECONDS, AgentReplay, AgentSnapshot, CallStats, Counts, CountsSnapshot, HistogramSnapshot,
        Observed, SavedReplay, StatsSnapshot, Ticks, UndisclosedAttempts, Window,
    };
    // Alarms, signals and quarantines.
    pub use countersign_tool_gate::{
        AlarmAction, AlarmRule, AlarmRuleError, AlarmState, BY_ALARM, BY_SIGNAL, KeptStanding,
        MemoryQuarantines, QuarantineError, Quarantines, SignalRule, SignalRuleError, Standing,
    };
}
