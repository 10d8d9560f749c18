mod attest;
mod bounds;
mod conformance;
mod endorse;
mod evidence;
mod facts;
mod new;
mod read;
mod rules;
mod schema;
mod verify;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Verify why a call is made: action proposals and their evidence (PIC/1.0).
///
/// Before a high-impact call an agent states its intent, the inputs that led to it and the evidence for its claims.
/// None of it counts until evidence verifies: an attestation that was signed for exactly this call, or a
/// file whose digest an operator signed.
///
/// These verbs end as PIC/1.0's own do: 0 allowed, 1 a file cannot be read, 2 not of the schema, 3 refused, 4 the
/// evidence is missing or fails, 6 the keyring cannot be used.
#[derive(Debug, Subcommand)]
pub(crate) enum Proposal {
    /// Check a proposal against the limits and the schema.
    #[command(after_help = "Example:\n  countersign proposal schema proposal.json")]
    Schema(schema::ProposalSchemaArgs),
    /// Verify a proposal, for a call or as it stands.
    #[command(after_help = "Examples:\n  \
        countersign proposal verify proposal.json --keyring keyring.json \\\n    \
        --audience desk-gate --server bank --tool payments_send \\\n    \
        --args args.json --call-id c1 --principal alice --agent pay-bot \\\n    \
        --session s1 --registry-version 7\n  \
        countersign proposal verify proposal.json --profile pic-0.9 \\\n    \
        --keyring keyring.json")]
    Verify(verify::ProposalVerifyArgs),
    /// Verify a proposal's evidence alone: one line for each entry.
    #[command(after_help = "Example:\n  \
        countersign proposal evidence proposal.json --profile pic-0.9 \\\n    \
        --evidence-root artifacts --keyring keyring.json")]
    Evidence(evidence::ProposalEvidenceArgs),
    /// Sign for one call of a proposal: prints the evidence entry.
    ///
    /// The evidence files are opened and held against their digests; what is signed, and how the files begin, is shown on
    /// standard error; then the question is asked. The signer says with their name that this call, with these
    /// arguments, for this principal, is backed by what its claims cite. It counts once, and only until it expires.
    #[command(after_help = "Example:\n  \
        countersign proposal attest --proposal proposal.json --key cfo.key.json \\\n    \
        --key-id cfo-1 --evidence-id invoice --audience desk-gate \\\n    \
        --server bank --call-id c1 --principal alice --agent pay-bot \\\n    \
        --session s1 --registry-version 7 --evidence-root evidence --into -")]
    Attest(attest::Attest),
    /// Sign, as an operator, that evidence files of certain digests may raise trust.
    ///
    /// For money, privacy and irreversible a digest counts only with bound arguments, and each call that it backs takes one
    /// of its uses: one in all unless --uses says more. Only --args binds everything. With --arg, --min and --max the agent
    /// chooses freely what they do not name (a currency, a second recipient, a member that you did not think of): name every
    /// place that matters, and the tool and the server, whose arguments they are.
    ///
    /// For other impacts a digest without bound arguments backs any claim that cites it, within its scope, any number of
    /// times, until it expires.
    ///
    /// Uses are counted in the store in which attestations are spent, which has to be there first (`store init`): it refuses
    /// what was issued before it was made (STORE_TOO_NEW). Gates that share endorsements have to share the store. Endorsing
    /// a file again gives uses of their own; --with signs the entries of an earlier list again without that. What is signed
    /// is shown on standard error.
    #[command(after_help = "Examples:\n  \
        countersign proposal endorse --file invoice.txt --tool payments_send \\\n    \
        --server bank --impact money --args args.json --expires 30d \\\n    \
        --key operator.key.json > endorsed.dsse.json\n  \
        countersign proposal endorse --file invoice.txt --tool payments_send \\\n    \
        --server bank --arg /to=DE02-PARTS --max /amount=1200 \\\n    \
        --arg '/reference=\"0042\"' --with endorsed.dsse.json \\\n    \
        --key operator.key.json > endorsed-2.dsse.json")]
    Endorse(endorse::Endorse),
    /// Write the skeleton of a proposal for one call, to fill in.
    #[command(after_help = "Example:\n  \
        countersign proposal new --tool payments_send --args args.json --impact money > proposal.json")]
    New(new::ProposalNewArgs),
    /// Run a conformance suite in the layout of PIC/1.0's own.
    #[command(
        after_help = "Example:\n  countersign proposal conformance conformance --profile pic-0.9 --json"
    )]
    Conformance(conformance::Conformance),
}

impl Proposal {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Schema(verb) => verb.run(out),
            Self::Verify(verb) => verb.run(out),
            Self::Evidence(verb) => verb.run(out),
            Self::Attest(verb) => verb.run(out),
            Self::Endorse(verb) => verb.run(out),
            Self::New(verb) => verb.run(out),
            Self::Conformance(verb) => verb.run(out),
        }
    }
}
