mod diff;
mod draft;
mod lint;
mod read;
mod show;
mod sign;
mod tighten;
mod verify;

use clap::{Args, Subcommand};
use countersign_registry::draft_schema;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Write, sign and verify what each agent may do.
///
/// A registry lists agents and their tools, the impact of each tool, and what a call of it needs: an approval, the
/// goal restated, arguments that fit. An operator writes it as a draft and signs it; gates accept the signed file
/// and nothing else.
#[derive(Debug, Subcommand)]
pub(crate) enum Registry {
    /// Print the JSON Schema of the draft format.
    #[command(after_help = "Example:\n  countersign registry schema > registry.schema.json")]
    Schema(RegistrySchemaArgs),
    /// Draft a registry for the built-in tools of a host with command hooks. Reading inside one folder is free, all else needs an approval.
    #[command(
        after_help = "Example:\n  countersign registry draft --host claude-code --root /srv/app > draft.json"
    )]
    Draft(draft::RegistryDraftArgs),
    /// Report the faults of a draft, and rules that could be tighter.
    #[command(after_help = "Example:\n  countersign registry lint registry.json")]
    Lint(lint::RegistryLintArgs),
    /// Draft the next version from the record: the tools that agents used, and rules for the values that they passed.
    ///
    /// An agent keeps the tools of its accepted calls. For each recorded argument value ([record.arguments] of the configuration) that has
    /// a pattern, a rule is added: a range of numbers, schemes and hosts of URLs, domains of addresses, folders of paths. The evidence
    /// of each rule is printed. No rule of the registry is loosened.
    #[command(
        after_help = "Example:\n  countersign registry tighten log/ --registry registry.json --key log.vkey \
        --out next.draft.json"
    )]
    Tighten(tighten::Tighten),
    /// Sign a draft with operators' keys.
    #[command(after_help = "Example:\n  countersign registry sign registry.json --key operator.key.json \
        --ttl 30d --out registry.dsse.json")]
    Sign(sign::RegistrySignArgs),
    /// Add a signature to a signed registry, where more than one operator must sign.
    #[command(after_help = "Example:\n  countersign registry cosign registry.dsse.json --key bob.key.json \
        --out registry.dsse.json --force")]
    Cosign(sign::Cosign),
    /// Verify a signed registry as a gate would: signatures, age, content.
    #[command(
        after_help = "Example:\n  countersign registry verify registry.dsse.json --trust-root trust-root.json"
    )]
    Verify(verify::RegistryVerifyArgs),
    /// Show a draft or a signed registry without verifying it.
    #[command(after_help = "Example:\n  countersign registry show registry.dsse.json")]
    Show(show::RegistryShowArgs),
    /// Show what changes from one registry to another; each may be a draft or signed.
    #[command(after_help = "Example:\n  countersign registry diff registry.dsse.json next.json")]
    Diff(diff::Diff),
    /// Revoke an agent or a key: writes and signs the next version.
    #[command(after_help = "Example:\n  countersign registry revoke registry.dsse.json --agent support-bot \
        --key operator.key.json --out next.dsse.json")]
    Revoke(sign::Revoke),
}

#[derive(Debug, Args)]
pub(crate) struct RegistrySchemaArgs {}

impl Registry {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Schema(_) => {
                out.line(draft_schema().trim_end())?;
                Ok(Exit::Done)
            }
            Self::Draft(verb) => verb.run(out),
            Self::Lint(verb) => verb.run(out),
            Self::Tighten(verb) => verb.run(out),
            Self::Sign(verb) => verb.run(out),
            Self::Cosign(verb) => verb.run(out),
            Self::Verify(verb) => verb.run(out),
            Self::Show(verb) => verb.run(out),
            Self::Diff(verb) => verb.run(out),
            Self::Revoke(verb) => verb.run(out),
        }
    }
}
