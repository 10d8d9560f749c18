use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use countersign_audit_log::EndReason;
use countersign_committed_plan::{CommittedPlan, Plan, Step};
use countersign_core::{Audience, Millis, Principal, RunId, ServerName};
use countersign_plan_runner::{PlanWatch, StartedPlan};
use countersign_tool_gate::{PlanSettings, StartPlanError, ToolGate, commit_plan};
use serde_json::json;

use super::approval::{ApprovalRoute, Approvals, Question, QuestionAnswer, Yes};
use super::file::PlanFile;
use super::fill::{PlannedRun, check_args, read_fill, runs};
use super::options::{SessionOptions, plan_for};
use super::questions::{Questions, Tokens, denied, refusal, report_halt, unapproved};
use super::steps::{Steps, tell_trace};
use crate::command::check::proposals::beside;
use crate::command::mcp::plans::BreachFlags;
use crate::command::token::DEFAULT_RUN;
use crate::drafting::MAX_MESSAGE;
use crate::failure::{Exit, Failure};
use crate::files::{Source, read_text};
use crate::mcp_server::ServerSource;
use crate::minting::minted_ttl;
use crate::output::{Output, counted, internal, reporter, watch_signals};
use crate::record_args::RecordArgs;
use countersign_host::config::{ApprovalConfig, Config};
use countersign_host::config_file::ConfigFile;
use countersign_host::plans::PlanPart;
use countersign_host::server::Client;
use countersign_host::session::{OpenSession, PreparedSession, SessionEnd};
use countersign_host::signals::AgentWatch;

#[derive(Debug, Args)]
pub(crate) struct PlanRunArgs {
    /// The plan: the whole of it, or steps alone; `-` is standard input.
    file: Source,
    /// A gateway's configuration, for everything that a session is opened with; its own `[plan]` is ignored.
    #[arg(long, value_name = "FILE", conflicts_with = "registry", required_unless_present = "registry")]
    config: Option<PathBuf>,
    #[command(flatten)]
    session: SessionOptions,
    /// On whose behalf the calls are made; `local` without it.
    #[arg(long, requires = "registry")]
    principal: Option<Principal>,
    /// Name of the server in the registry; without it, its name in the plan.
    #[arg(long, value_name = "NAME", requires = "registry")]
    server: Option<ServerName>,
    #[command(flatten)]
    record: RecordArgs,
    /// The gate's HMAC key file. Without it no approval is accepted.
    #[arg(long, value_name = "FILE", requires = "registry")]
    approval_key: Option<PathBuf>,
    /// Run whose key approvals are minted with; `check` without it.
    #[arg(long, requires = "approval_key")]
    run: Option<RunId>,
    /// Longest lifetime of an approval, from its issue to its expiry. With --config, `ttl` of `[approval]` says it.
    #[arg(long, value_name = "SPAN", default_value = "1h", requires = "approval_key")]
    approval_ttl: Millis,
    /// Name of this gate, as approvals bind it; `check` without it.
    #[arg(long, requires = "approval_key")]
    audience: Option<Audience>,
    /// Where used approvals are remembered; beside the key file without it.
    #[arg(long, value_name = "STORE", requires = "approval_key")]
    spent: Option<PathBuf>,
    /// Values for the open arguments.
    #[arg(long, value_name = "FILE")]
    fill: Option<Source>,
    /// An approval token for the whole plan; `-` reads it from standard input.
    #[arg(long, value_name = "TOKEN")]
    approval: Option<String>,
    /// An approval token for one call, where a tool asks for one of each call.
    #[arg(long, value_name = "STEP=TOKEN", value_parser = step_token)]
    step_approval: Vec<(u64, String)>,
    #[command(flatten)]
    breach: BreachFlags,
    /// How long to wait for each answer of the server.
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    wait: Millis,
    /// The command that starts the server and its arguments, after `--`. A configuration with a URL needs none.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SERVER")]
    command: Vec<OsString>,
}

/// A plan that is ready to run, and its session.
struct Opening {
    plan: Plan,
    committed: CommittedPlan,
    runs: Vec<PlannedRun>,
    session: PreparedSession,
    server: ServerName,
    goal: Option<String>,
    asking: ApprovalRoute,
    session_is_named: bool,
    approval: Option<String>,
    /// File with the committed text of the plan, if there is one.
    plan_file: Option<String>,
}

impl PlanRunArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let (opening, source) = self.opening()?;
        let interrupt = watch_signals()?;
        let mut server = source.start(&interrupt)?;
        let mut client = server.client(self.wait, &interrupt)?;
        let ended = client
            .initialize(source.era)
            .map_err(Failure::from)
            .and_then(|_| self.walk(out, opening, &mut client));
        // This closes the server's input.
        drop(client);
        server.end();
        ended.map(|()| Exit::Done)
    }

    /// Reads and checks as much as possible before the server starts.
    fn opening(&self) -> Result<(Opening, ServerSource), Failure> {
        let from_stdin = [self.file == Source::Stdin, self.fill == Some(Source::Stdin)];
        let from_stdin = from_stdin.into_iter().chain([self.approval.as_deref() == Some("-")]);
        if from_stdin.filter(|from| *from).count() > 1 {
            return Err(Failure::usage(
                "only one of the plan, --fill and --approval can come from standard input",
            ));
        }
        let file = PlanFile::read(&self.file)?;
        let (fill, last) = (read_fill(self.fill.as_ref())?, file.steps().len() as u64);
        if self.step_approval.iter().any(|(step, _)| !(1..=last).contains(step)) {
            let text = format!("--step-approval: the plan has {}", counted(last, "step"));
            return Err(Failure::new("PLAN_NO_SUCH_STEP", text));
        }
        let (mut config, asking, source) = self.config(&file)?;
        let server = server_of(file.steps(), config.server.as_ref())?;
        let goal = config.goal.clone();
        config.on_breach = self.breach.on_breach()?;
        let session = config.prepare(&reporter())?;
        session.plan_context().map_err(|error| refusal(&error))?;
        let plan_file = match &self.file {
            Source::File(path) => file.is_as_committed().then(|| path.display().to_string()),
            Source::Stdin => None,
        };
        let session_is_named = self.session.names_session(&file);
        let plan = plan_for(file, &session)?;
        // The gate repeats this check; here it precedes every side effect.
        let committed = commit_plan(plan.clone(), session.contract(), &session.registry().view())
            .map_err(|error| Failure::from(error).into_refusal())?;
        let runs = runs(&committed, fill.as_ref())?;
        // The gate checks a step's arguments only when the step is due, after the plan's approval was spent.
        check_args(&runs, &session)?;
        let approval = self.approval.as_deref().map(read_text).transpose()?;
        let opening = Opening {
            plan,
            committed,
            runs,
            session,
            server,
            goal,
            asking,
            session_is_named,
            approval,
            plan_file,
        };
        Ok((opening, source))
    }

    fn config(&self, plan: &PlanFile) -> Result<(Config, ApprovalRoute, ServerSource), Failure> {
        let session = self.session.session_of(plan)?;
        if let Some(path) = &self.config {
            if self.record.is_given() {
                return Err(Failure::usage(
                    "--record is not valid with --config: the configuration names the record",
                ));
            }
            let file = ConfigFile::read(path)?;
            let asking = file.approval.as_ref().map_or(ApprovalRoute::Unavailable, |part| {
                ApprovalRoute::Filing { config: path.clone(), ttl: part.ttl() }
            });
            let source = ServerSource::of_part(file.server.one()?, &self.command, MAX_MESSAGE, &reporter())?;
            return Ok((file.config(session, &PlanPart::default())?, asking, source));
        }
        let source = ServerSource::of(None, None, &self.command, MAX_MESSAGE, &reporter())?;
        let mut config = self.session.config(session, self.server.clone())?;
        if let Some(principal) = &self.principal {
            config.principal = principal.clone();
        }
        config.record = self.record.plan()?;
        let Some(key) = &self.approval_key else {
            return Ok((config, ApprovalRoute::Unavailable, source));
        };
        let run = named_or_default(self.run.as_ref())?;
        let audience = named_or_default(self.audience.as_ref())?;
        let store = self.spent.clone().unwrap_or_else(|| beside(key));
        let mut approvals = ApprovalConfig::new(key.clone(), run.clone(), audience, store);
        approvals.max_lifetime = self.approval_ttl;
        config.approvals = Some(approvals);
        let ttl = minted_ttl(self.approval_ttl);
        Ok((config, ApprovalRoute::Minting { key_file: key.clone(), run, ttl }, source))
    }

    /// Opens the session, starts the plan, runs its calls and prints the trace.
    fn walk(&self, out: &mut Output, opening: Opening, client: &mut Client) -> Result<(), Failure> {
        let Opening { plan, committed, runs, session, server, goal, asking, .. } = opening;
        let session = session.open()?;
        let mut at_end = SessionEnd::new(&session);
        let OpenSession { gate, pending, .. } = session;
        let approvals = Approvals::new(asking, pending, opening.session_is_named);
        let tokens = Tokens { plan: opening.approval, steps: &self.step_approval };
        let goal = goal.as_deref();
        let mut watch = PlanWatch::new(&gate);
        let mut steps = Steps { gate: &gate, client, server: &server, goal, approvals: &approvals };
        let ran = steps
            .note_definitions()
            .and_then(|()| {
                Questions::of(&gate, &plan, &committed, &runs, tokens, &approvals, opening.plan_file)
            })
            .and_then(|questions| {
                questions.settle(out, &gate, &approvals)?;
                steps.client.check_interrupt()?;
                let settings = PlanSettings::new(plan);
                let started =
                    start(out, &gate, &mut watch, committed, settings, questions.plan(), &approvals)?;
                steps.run(out, started, &runs, &questions)
            });
        // The record shows the halt and its reason. A plan that never started needs none.
        match &ran {
            Ok(_) => {
                drop(watch);
                at_end.set(EndReason::Client);
            }
            Err(failure) => {
                report_halt(watch.fail(failure.code()));
                if matches!(failure.exit(), Exit::Signal(_)) {
                    at_end.set(EndReason::Signal);
                }
            }
        }
        AgentWatch::new(gate, reporter()).end();
        drop(at_end);
        tell_trace(out, &ran?)
    }
}

fn start<'g>(
    out: &mut Output,
    gate: &ToolGate,
    watch: &mut PlanWatch<'g>,
    plan: CommittedPlan,
    mut settings: PlanSettings,
    question: Option<&Question>,
    approvals: &Approvals,
) -> Result<StartedPlan<'g>, Failure> {
    let (steps, approved) = (plan.steps().len(), question.is_some());
    let yes = question.map(|question| yes_to(gate, approvals, question)).transpose()?;
    if let Some(yes) = &yes {
        settings = settings.approval(&yes.token);
    }
    let started = watch.start(plan, settings);
    if let Some(yes) = &yes {
        match &started {
            Ok(_) | Err(StartPlanError::Unrecorded) => approvals.retire(yes, None),
            Err(StartPlanError::Refused(code)) => approvals.retire(yes, Some(*code)),
            Err(_) => {}
        }
    }
    let started = started.map_err(|error| refusal(&error))?;
    let root = started.root();
    let (contract, version) = (gate.contract(), gate.registry().view().snapshot().version());
    let session = contract.session();
    let report = json!({
        "event": "started", "root": root, "steps": steps, "session": session, "registry_version": version,
        "approved": approved,
    });
    let by = if approved { ", approved as a whole" } else { "" };
    let steps = counted(steps as u64, "step");
    let text = format!("plan {root} started: {steps}, session {session}, registry {version}{by}");
    out.result(&report, &text)?;
    out.flush()?;
    Ok(started)
}

/// Returns the approval of the plan, which existed a moment ago.
fn yes_to(gate: &ToolGate, approvals: &Approvals, question: &Question) -> Result<Yes, Failure> {
    match approvals.answer(question)? {
        Some(QuestionAnswer::Yes(yes)) => Ok(yes),
        Some(QuestionAnswer::No(by)) => Err(denied(gate, question, &by)),
        None => Err(unapproved(&question.what)),
    }
}

/// Returns the one server that all steps are for.
fn server_of(steps: &[Step], named: Option<&ServerName>) -> Result<ServerName, Failure> {
    let server = named.or_else(|| steps.first().map(|step| step.tool().server()));
    let server = server.ok_or_else(|| internal("a plan has no steps"))?;
    match (1..).zip(steps).find(|(_, step)| step.tool().server() != server) {
        Some((number, step)) => {
            let text = format!("step {number} is for {}, the started server is `{server}`", step.tool());
            Err(Failure::new("PLAN_OTHER_SERVER", text))
        }
        None => Ok(server.clone()),
    }
}

fn named_or_default<T: Clone + FromStr>(named: Option<&T>) -> Result<T, Failure> {
    match named {
        Some(named) => Ok(named.clone()),
        None => DEFAULT_RUN.parse().map_err(|_| internal("the default run name is invalid")),
    }
}

fn step_token(text: &str) -> Result<(u64, String), String> {
    let wrong = || "STEP=TOKEN expected".to_owned();
    let (step, token) = text.split_once('=').ok_or_else(wrong)?;
    Ok((step.parse().map_err(|_| wrong())?, token.to_owned()))
}
