mod approve;
mod ask;
mod attest;
pub(crate) mod audit;
mod check;
mod completions;
mod doctor;
mod grant;
mod hook;
pub(crate) mod json;
pub(crate) mod keys;
mod man;
pub(crate) mod mcp;
mod merkle;
mod plan;
mod proposal;
mod quarantine;
pub(crate) mod registry;
mod serve;
mod simulate;
mod stats;
mod store;
pub(crate) mod token;
mod user;
pub(crate) mod wrap;

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
    Wrap(wrap::Wrap),
    Unwrap(wrap::Unwrap),
    Doctor(doctor::Doctor),
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
    Serve(serve::Serve),
    Approve(approve::ApproveArgs),
    Attest(attest::AttestArgs),
    #[command(subcommand)]
    Grant(grant::GrantCommand),
    Hook(hook::HookArgs),
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
    #[command(subcommand)]
    User(user::User),
    Completions(completions::Completions),
    Man(man::Man),
    #[command(hide = true)]
    DemoDesk(crate::demo::DemoDesk),
}
