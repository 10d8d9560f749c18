use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use countersign_committed_plan::{Plan, Step};
use countersign_core::{Audience, CallId, Millis, OperatorId, Principal, RunId, ServerName};
use countersign_registry::ApprovalRule;
use countersign_tool_gate::{
    HaltPlanError, PlanSettings, RejectionCode, StartPlanError, ToolGate, commit_plan,
};
use serde_json::json;

use super::approval::{Answer, Approvals, Asking};
use super::commit::needing;
use super::file::PlanFile;
use super::fill::{PlannedRun, check_args, read_fill, runs};
use super::options::{SessionOptions, plan_for};
use super::steps::{Steps, tell_trace};
use super::{counted, failure};
use crate::command::check::beside;
use crate::command::token::DEFAULT_RUN;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::files::{Source, read_text};
use crate::output::{Output, internal, note};
use crate::record::RecordArgs;
use crate::server::{Client, Server};
use crate::session::{ApprovalPlan, Bindings, OpenSession, PreparedSession, SessionPlan};
use crate::signals::Watch;

/// How long a server may take to end after its input was closed, in milliseconds.
const LEAVE_MILLIS: u64 = 3_000;

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The plan: the whole of it, or steps alone; `-` is standard input.
    file: Source,
    /// A gateway's configuration, for everything that a session is opened with; its own `[plan]` is not looked at.
    #[arg(long, value_name = "FILE", conflicts_with = "registry", required_unless_present = "registry")]
    config: Option<PathBuf>,
    #[command(flatten)]
    session: SessionOptions,
    /// On whose behalf the calls are made; `local` without it.
    #[arg(long, requires = "registry")]
    principal: Option<Principal>,
    /// What the registry calls the server; what the plan calls it without this.
    #[arg(long, value_name = "NAME", requires = "registry")]
    server: Option<ServerName>,
    #[command(flatten)]
    record: RecordArgs,
    /// The gate's HMAC key file. Without it no approval is taken.
    #[arg(long, value_name = "FILE", requires = "registry")]
    approval_key: Option<PathBuf>,
    /// Run whose key approvals are minted with; `check` without it.
    #[arg(long, requires = "approval_key")]
    run: Option<RunId>,
    /// Name of this gate, as approvals bind it; `check` without it.
    #[arg(long, requires = "approval_key")]
    audience: Option<Audience>,
    /// Where used approvals are remembered; beside the key file without it.
    #[arg(long, value_name = "STORE", requires = "approval_key")]
    spent: Option<PathBuf>,
    /// What the open places are filled with.
    #[arg(long, value_name = "FILE")]
    fill: Option<Source>,
    /// An approval token for the whole plan; `-` reads it from standard input.
    #[arg(long, value_name = "TOKEN")]
    approval: Option<String>,
    /// An approval token for one call, where a tool asks for one of each call.
    #[arg(long, value_name = "STEP=TOKEN", value_parser = step_token)]
    step_approval: Vec<(u64, String)>,
    /// How long to wait for each answer of the server.
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    wait: Millis,
    /// The command that starts the server and its arguments, after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "SERVER")]
    command: Vec<OsString>,
}

/// What is run, and in which session.
struct Opening {
    plan: Plan,
    runs: Vec<PlannedRun>,
    session: PreparedSession,
    server: ServerName,
    goal: Option<String>,
    asking: Asking,
    approval: Option<String>,
    /// A file that holds the plan as it is committed, if there is one.
    plan_file: Option<String>,
}

impl Run {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let opening = self.opening()?;
        let mut server = Server::start(&self.command)?;
        let mut client = server.client(self.wait)?;
        let ended = client.initialize().and_then(|()| self.walk(out, opening, &mut client));
        // Without a client its input is closed, which is how a server is told to end.
        drop(client);
        server.wait(LEAVE_MILLIS);
        ended.map(|()| Exit::Done)
    }

    /// Reads and checks everything that can be before the server is started.
    fn opening(&self) -> Result<Opening, Failure> {
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
        let (session, asking) = self.session_plan(&file)?;
        let server = server_of(file.steps(), session.server.as_ref())?;
        let (goal, session) = (session.goal.clone(), session.prepare()?);
        session.plan_context().map_err(|error| refusal(&error))?;
        let plan_file = match &self.file {
            Source::File(path) => file.is_as_committed().then(|| path.display().to_string()),
            Source::Stdin => None,
        };
        let plan = plan_for(file, &session)?;
        // The gate does this again; here it comes before anything is started.
        let committed = commit_plan(plan.clone(), session.contract(), &session.registry().view())
            .map_err(|error| failure(error.code(), &error).into_refusal())?;
        let runs = runs(&committed, fill.as_ref())?;
        // And this it asks of a step when its turn has come, which is after the plan's approval was used up.
        check_args(&runs, &session)?;
        if matches!(asking, Asking::Filing { .. }) {
            self.check_approvals(&plan, &runs, &session)?;
        }
        let approval = self.approval.as_deref().map(read_text).transpose()?;
        Ok(Opening { plan, runs, session, server, goal, asking, approval, plan_file })
    }

    fn session_plan(&self, file: &PlanFile) -> Result<(SessionPlan, Asking), Failure> {
        let session = self.session.session_of(file)?;
        if let Some(path) = &self.config {
            if self.record.is_given() {
                return Err(Failure::usage(
                    "--record is for a session without --config, which says it itself",
                ));
            }
            let config = Config::read(path)?;
            let asking = config
                .approval
                .as_ref()
                .map_or(Asking::Nobody, |part| Asking::Filing { config: path.clone(), ttl: part.ttl() });
            return Ok((config.plan(session)?, asking));
        }
        let mut plan = self.session.session_plan(session, self.server.clone())?;
        if let Some(principal) = &self.principal {
            plan.principal = principal.clone();
        }
        plan.record = self.record.plan()?;
        let Some(key) = &self.approval_key else {
            return Ok((plan, Asking::Nobody));
        };
        let run = named_or_default(self.run.as_ref())?;
        plan.approvals = Some(ApprovalPlan {
            key: key.clone(),
            run: run.clone(),
            audience: named_or_default(self.audience.as_ref())?,
            store: self.spent.clone().unwrap_or_else(|| beside(key)),
            bindings: Bindings::Strict,
        });
        Ok((plan, Asking::Minting { key_file: key.clone(), run }))
    }

    /// Sees that no more than one approval has to be found. A run uses up the one that it finds, and where it ends with the question
    /// for another, the next run begins with the first step and lacks that one.
    fn check_approvals(
        &self,
        plan: &Plan,
        runs: &[PlannedRun],
        session: &PreparedSession,
    ) -> Result<(), Failure> {
        let view = session.registry().view();
        let needing = |rule| needing(plan.steps(), session.contract(), &view, rule);
        let of_the_plan = usize::from(self.approval.is_none() && !needing(ApprovalRule::Required).is_empty());
        let of_calls = needing(ApprovalRule::EachCall).into_iter().map(|step| {
            let given = self.step_approval.iter().filter(|(of, _)| *of == step).count();
            runs.iter().filter(|run| run.step == step).count().saturating_sub(given)
        });
        let missing = of_calls.fold(of_the_plan, usize::saturating_add);
        if missing > 1 {
            let text = format!(
                "{missing} approvals are missing, which would be asked for one by one, and each run uses up those that it                  finds: the plan would never end; give all but one (--approval, --step-approval)"
            );
            return Err(Failure::new("PLAN_APPROVALS", text));
        }
        Ok(())
    }

    /// Opens the session, starts the plan, runs its calls and gives out what came of them.
    fn walk(&self, out: &mut Output, opening: Opening, client: &mut Client) -> Result<(), Failure> {
        let Opening { plan, runs, session, server, goal, asking, approval, plan_file } = opening;
        let OpenSession { gate, pending, .. } = session.open()?;
        let approvals = Approvals::new(asking, pending);
        let mut steps = Steps {
            gate: &gate,
            client,
            server: &server,
            goal: goal.as_deref(),
            approvals: &approvals,
            tokens: &self.step_approval,
        };
        steps.note_definitions()?;
        let count = plan.steps().len();
        let ran = approval_of(out, &gate, &plan, approval, &approvals, plan_file.as_deref())
            .and_then(|approval| start(out, &gate, plan, approval.as_ref(), &approvals))
            .and_then(|()| steps.run(out, &runs, count))
            .and_then(|()| gate.finish_plan().map_err(|error| failure(error.code(), &error).into_refusal()));
        if let Err(failure) = &ran {
            halt(&gate, failure);
        }
        Watch::new(gate).end();
        tell_trace(out, &ran?)
    }
}

/// A token, and the id of the question that it answers where it was found in a store.
type Given = (Option<CallId>, String);

/// For the record: whoever reads it sees that the plan is over, and why. Where it never started, there is nothing to halt.
fn halt(gate: &ToolGate, why: &Failure) {
    if let Err(error @ HaltPlanError::Unrecorded) = gate.halt_plan(why.code()) {
        note(&format!("warning {}: {error}", error.code()));
    }
}

/// The approval of the whole plan: the token that was given, or what is found where a step needs one.
fn approval_of(
    out: &mut Output,
    gate: &ToolGate,
    plan: &Plan,
    token: Option<String>,
    approvals: &Approvals,
    plan_file: Option<&str>,
) -> Result<Option<Given>, Failure> {
    if let Some(token) = token {
        // A no that was filed comes before any token.
        if approvals.are_filed() {
            let request = gate.plan_approval_request(plan).map_err(|error| refusal(&error))?;
            if let Some(by) = approvals.denied(&request)? {
                return Err(denied(&gate.refuse_plan(&request, Some(by.as_str())), &by));
            }
        }
        return Ok(Some((None, token)));
    }
    let view = gate.registry().view();
    if needing(plan.steps(), gate.contract(), &view, ApprovalRule::Required).is_empty() {
        return Ok(None);
    }
    if !approvals.are_taken() {
        let text = "the plan must be approved, and no approval is taken here: give the gate's key";
        return Err(Failure::refused("APPROVAL_REQUIRED", text));
    }
    let request = gate.plan_approval_request(plan).map_err(|error| refusal(&error))?;
    match approvals.answer(out, "the plan", &request, plan_file)? {
        Answer::Approved(id, token) => Ok(Some((Some(id), token.as_str().to_owned()))),
        Answer::Denied(by) => Err(denied(&gate.refuse_plan(&request, Some(by.as_str())), &by)),
    }
}

fn denied(refused: &StartPlanError, by: &OperatorId) -> Failure {
    if !matches!(refused, StartPlanError::Refused(RejectionCode::ApprovalDenied)) {
        return refusal(refused);
    }
    let text = format!("the plan was denied by {by}; the plan for another session is another question");
    Failure::refused(refused.code(), text)
}

fn start(
    out: &mut Output,
    gate: &ToolGate,
    plan: Plan,
    approval: Option<&Given>,
    approvals: &Approvals,
) -> Result<(), Failure> {
    let (steps, approved) = (plan.steps().len(), approval.is_some());
    let mut settings = PlanSettings::new(plan);
    if let Some((_, token)) = approval {
        settings = settings.approval(token);
    }
    let started = gate.start_plan(settings);
    if let Some((Some(id), _)) = approval {
        match &started {
            Ok(_) => approvals.retire(id, None)?,
            Err(StartPlanError::Refused(code)) => approvals.retire(id, Some(*code))?,
            Err(_) => {}
        }
    }
    let root = started.map_err(|error| refusal(&error))?;
    let (session, version) = (gate.contract().session(), gate.registry().view().snapshot().version());
    let report = json!({
        "event": "started", "root": root, "steps": steps, "session": session, "registry_version": version,
        "approved": approved,
    });
    let by = if approved { ", approved as a whole" } else { "" };
    let steps = counted(steps as u64, "step");
    let text = format!("plan {root} started: {steps}, session {session}, registry {version}{by}");
    out.result(&report, &text)?;
    out.flush()
}

/// The one server that all steps are for.
fn server_of(steps: &[Step], named: Option<&ServerName>) -> Result<ServerName, Failure> {
    let server = named.or_else(|| steps.first().map(|step| step.tool().server()));
    let server = server.ok_or_else(|| internal("a plan has no steps"))?;
    match (1..).zip(steps).find(|(_, step)| step.tool().server() != server) {
        Some((number, step)) => {
            let text =
                format!("step {number} is for {}, and the server that is started is `{server}`", step.tool());
            Err(Failure::new("PLAN_OTHER_SERVER", text))
        }
        None => Ok(server.clone()),
    }
}

fn refusal(error: &StartPlanError) -> Failure {
    failure(error.code(), error).into_refusal()
}

fn named_or_default<T: Clone + FromStr>(named: Option<&T>) -> Result<T, Failure> {
    match named {
        Some(named) => Ok(named.clone()),
        None => DEFAULT_RUN.parse().map_err(|_| internal("the default name is none")),
    }
}

fn step_token(text: &str) -> Result<(u64, String), String> {
    let wrong = || "not a step's number, `=` and a token".to_owned();
    let (step, token) = text.split_once('=').ok_or_else(wrong)?;
    Ok((step.parse().map_err(|_| wrong())?, token.to_owned()))
}
