mod approval;
mod commit;
mod file;
mod fill;
mod lint;
mod options;
mod prove;
mod questions;
mod run;
mod show;
mod steps;
mod tree;
mod verify;

pub(crate) use options::plan_for;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(crate) use file::PlanFile;

/// Commit a plan of tool calls before the first of them runs, and hold the calls to it.
///
/// A plan is a file: either the whole of it, as `plan commit --out` writes it (what it is for, and its steps), or the steps
/// alone, as {"steps": [..]} or as a list; what they are for comes from options then. A step is
///
/// {"tool": "server:name", "args": {..}} and perhaps "dynamic" (pointers to arguments that are left open; the value
/// "<DYNAMIC>" in "args" says the same), "description" and "max_calls".
///
/// Committed, a plan is a Merkle tree, and its root stands for the whole of it.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Report the faults of a plan: of its text, and with a registry of what an agent may do.
    ///
    /// With --registry every step that is not allowed is named: its tool is not disclosed to the agent, it leaves something
    /// open that is not data, or what it fixes does not fit the tool. The exit code is 3 when anything is wrong.
    #[command(after_help = "Examples:\n  countersign plan lint plan.json\n  \
        countersign plan lint plan.json --registry registry.dsse.json --trust-root trust-root.json \\\n    \
        --agent support-bot")]
    Lint(lint::PlanLintArgs),
    /// Check a plan against what an agent may do, and commit it: prints its root.
    ///
    /// Refuses a plan with a step that is not allowed (exit code 3). Without --goal the goal that a whole plan names is
    /// taken at its word; the gate compares it when the plan is started.
    #[command(after_help = "Example:\n  countersign plan commit steps.json --registry registry.dsse.json \
        --trust-root trust-root.json \\\n    --agent support-bot --goal 'Answer ticket 7' --out plan.json")]
    Commit(commit::Commit),
    /// Draw a plan's tree, its steps, and which of their arguments are fixed and which are open.
    #[command(after_help = "Examples:\n  countersign plan show plan.json\n  \
        countersign plan show steps.json --goal 'Answer ticket 7' --session s1 --registry-version 7")]
    Show(show::PlanShowArgs),
    /// Prove one step, or the header, to a party that has only the root: prints the proof as JSON.
    #[command(after_help = "Examples:\n  countersign plan prove plan.json --step 2 > step-2.json\n  \
        countersign plan prove plan.json --header > header.json")]
    Prove(prove::PlanProveArgs),
    /// Verify a proof against a root, and a call against the step: exit code 0 when they hold, 3 when not.
    ///
    /// A proof does not show that it is the step's turn, or that the plan is approved.
    #[command(after_help = "Examples:\n  countersign plan verify --root 9c1f.. --proof step-2.json\n  \
        countersign plan verify --root 9c1f.. --proof step-2.json --call desk:send_mail --args args.json")]
    Verify(verify::PlanVerifyArgs),
    /// Run a plan: every step through the gate, against a real MCP server.
    ///
    /// Starts the server, opens a session and starts the plan in it. Each call is decided by the gate, held to the plan, and
    /// recorded before it goes to the server. The first refusal ends the run (exit code 3). What the tools returned is
    /// shown only after every step has run and the root was recomputed. A run that ends before that is not resumed:
    /// a new run begins with the first step.
    ///
    /// Open arguments come from --fill, an object from step numbers to arguments: {"2": {"body": ".."}}. Only open places
    /// may be given; what lies in a list is given by its index. A step that may be called more than once may have a list of
    /// such objects, one for each call.
    ///
    /// Where a step needs an approval, the whole plan is approved at once: without one, what has to be approved is printed and
    /// the exit code is 3. With --config it is filed as well, and found once it was approved with `countersign approve`. A denial that
    /// was filed comes before any token.
    ///
    /// A tool whose rule is `each_call` needs an approval for each of its calls. All of them are asked for at once, with the plan's
    /// own, and no tool is called before all of them are given.
    #[command(after_help = "Examples:\n  countersign plan run plan.json --registry registry.dsse.json \
        --trust-root trust-root.json \\\n    --agent support-bot --goal 'Answer ticket 7' -- ./desk-server\n  \
        countersign plan run plan.json --config gateway.toml --fill fill.json -- ./desk-server")]
    Run(Box<run::PlanRunArgs>),
}

impl PlanCommand {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Lint(verb) => verb.run(out),
            Self::Commit(verb) => verb.run(out),
            Self::Show(verb) => verb.run(out),
            Self::Prove(verb) => verb.run(out),
            Self::Verify(verb) => verb.run(out),
            Self::Run(verb) => verb.run(out),
        }
    }
}
