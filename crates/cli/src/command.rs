mod approve;
mod ask;
pub(crate) mod audit;
mod check;
mod completions;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod mcp;
mod merkle;
mod plan;
mod proposal;
mod quarantine;
pub(crate) mod registry;
mod simulate;
mod stats;
mod store;
pub(crate) mod token;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Generates the list of verbs. Each verb is a file in this folder with a type that has the help text and a method
/// `run`. A comment on a row would replace that help text.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $name:ident($verb:ty),)+) => {
        #[derive(Debug, Subcommand)]
        #[expect(clippy::large_enum_variant, reason = "one value, parsed once")]
        pub(crate) enum Verb {
            $($(#[$attribute])* $name($verb),)+
        }

        impl Verb {
            /// Runs the requested verb.
            pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
                match self {
                    $(Self::$name(verb) => verb.run(out),)+
                }
            }
        }
    };
}

verbs! {
    Demo(crate::demo::Demo),
    #[command(subcommand)]
    Keys(keys::Keys),
    #[command(subcommand)]
    Json(json::Json),
    #[command(subcommand)]
    Registry(registry::Registry),
    #[command(subcommand)]
    Ask(ask::Ask),
    #[command(subcommand)]
    Token(token::Token),
    #[command(subcommand)]
    Proposal(proposal::Proposal),
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    Check(check::CheckArgs),
    #[command(subcommand)]
    Mcp(mcp::Mcp),
    Approve(approve::ApproveArgs),
    #[command(subcommand)]
    Store(store::Store),
    #[command(subcommand)]
    Quarantine(quarantine::Quarantine),
    #[command(subcommand)]
    Audit(audit::Audit),
    #[command(subcommand)]
    Merkle(merkle::Merkle),
    Simulate(simulate::Simulate),
    Stats(stats::Stats),
    Completions(completions::Completions),
    #[command(hide = true)]
    DemoDesk(crate::demo::DemoDesk),
}
