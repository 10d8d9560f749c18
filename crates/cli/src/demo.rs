//! `countersign demo`: the main task on a fresh machine. A real MCP server process, the real gateway in front of it, an
//! operator who uses this same binary, and an agent that behaves well once and then misbehaves in every known way.

mod agent;
mod desk;
mod scenes;
mod wire;
mod world;

use std::path::{Path, PathBuf};

use clap::Args;
use countersign_audit_log::Record;
use serde::Serialize;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::Output;

use agent::{ActResult, Agent};
use scenes::{Act, Scene, scenes};
use wire::Reason;
use world::{Role, World};

/// Plays an agent that does right once and wrong in every known way.
///
/// Starts a small support desk as a real MCP server, puts the real gateway in front of it, signs a registry, approves
/// one refund, revokes the agent, lets another one wire money for which it has to show evidence, and holds a third one to
/// the plan that it made. All of it is put into a log, which is verified in the end. Needs no network and no other program. Exits with
/// 0 only if every verdict was the expected one.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Put the log here, into a new folder, instead of beside the demo's other files.
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
}

/// The desk itself, as the demo starts it behind the gateway.
#[derive(Debug, Args)]
pub(crate) struct DemoDesk {
    /// Where side effects are written down, one a line.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
}

impl DemoDesk {
    pub(crate) fn run(&self, _: &mut Output) -> Result<Exit, Failure> {
        desk::serve(&self.ledger)
    }
}

/// One row of the table.
#[derive(Debug, Serialize)]
struct DemoRow {
    step: usize,
    scene: &'static str,
    tool: Option<String>,
    expected: &'static str,
    verdict: String,
    ok: bool,
    acceptance_rate: Option<f64>,
}

impl Demo {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let world = World::create(self.record.as_deref())?;
        if !out.is_json() {
            out.line("Every tool call, countersigned. An agent meets the gate in front of its desk.\n")?;
            out.line(&format!("     {:<51} {:<15} {:<22} accepted", "action", "tool", "verdict"))?;
        }
        let mut rows = Vec::new();
        let mut tally = DemoCounts::default();
        let mut ending = String::new();
        for (role, scenes) in scenes() {
            let mut agent = Agent::start(&world, role)?;
            for scene in scenes {
                let row = play(&world, role, &mut agent, &scene, rows.len().saturating_add(1), &mut tally)?;
                if !out.is_json() {
                    out.line(&shown(&row, &scene))?;
                    out.flush()?;
                }
                rows.push(row);
            }
            ending.push_str(&agent.stop()?);
        }
        finish(out, &world, &rows, &tally, &ending)
    }
}

/// Counts decisions as the gate does: a call that waits for its approval is not decided yet.
#[derive(Debug, Default)]
struct DemoCounts {
    accepted: u32,
    decided: u32,
    calls: u64,
}

impl DemoCounts {
    fn count(&mut self, verdict: &ActResult) {
        self.calls = self.calls.saturating_add(1);
        let accepted = matches!(verdict, ActResult::Accepted);
        if accepted || !verdict.is("APPROVAL_REQUIRED") {
            self.decided = self.decided.saturating_add(1);
            self.accepted = self.accepted.saturating_add(u32::from(accepted));
        }
    }

    fn rate(&self) -> Option<f64> {
        (self.decided > 0).then(|| f64::from(self.accepted) / f64::from(self.decided))
    }
}

fn play(
    world: &World,
    role: &'static Role,
    agent: &mut Agent,
    scene: &Scene,
    step: usize,
    tally: &mut DemoCounts,
) -> Result<DemoRow, Failure> {
    let (tool, verdict) = match &scene.act {
        Act::List => (None, agent.list()?),
        Act::Call { tool, args, ask } => {
            let verdict = agent.call(tool, args, *ask)?;
            tally.count(&verdict);
            (Some((*tool).to_owned()), verdict)
        }
        Act::Submit(steps) => {
            let verdict = agent.submit(steps)?;
            tally.count(&verdict);
            (Some("submit_plan".to_owned()), verdict)
        }
        Act::Approve => {
            world.approve(&agent.approval_id()?, role)?;
            (None, ActResult::Done)
        }
        Act::Revoke => {
            world.revoke_agent()?;
            (None, ActResult::Done)
        }
        Act::Wire(reason) => {
            let proposal = match reason {
                Reason::Attested => world.attested()?,
                Reason::Mail | Reason::Invented => wire::proposal(*reason),
            };
            let verdict = agent.wire(wire::args(*reason), proposal)?;
            tally.count(&verdict);
            (Some(wire::TOOL.to_owned()), verdict)
        }
        Act::Attest => {
            world.attest()?;
            (None, ActResult::Done)
        }
    };
    let ok = verdict.is(scene.expected);
    Ok(DemoRow {
        step,
        scene: scene.title,
        tool,
        expected: scene.expected,
        verdict: verdict.text(),
        ok,
        acceptance_rate: tally.rate(),
    })
}

fn shown(row: &DemoRow, scene: &Scene) -> String {
    let mark = if row.ok { ' ' } else { '!' };
    let rate =
        row.acceptance_rate.map_or_else(|| "    -".to_owned(), |rate| format!("{:4.0}%", rate * 100.0));
    let tool = row.tool.as_deref().unwrap_or("");
    format!(
        "{mark}{:>2}  {:<51} {tool:<15} {:<22} {rate}\n      {}",
        row.step, scene.title, row.verdict, scene.why
    )
}

/// The only side effects that the desk may have at the end.
const EFFECTS: [&str; 3] =
    ["refund of 49 EUR on T-1001", "wire of 1200 EUR to DE02-PARTS", "refund of 12 EUR on T-1003"];

/// Compares verdicts, side effects and record with the expected ones.
fn finish(
    out: &mut Output,
    world: &World,
    rows: &[DemoRow],
    tally: &DemoCounts,
    ending: &str,
) -> Result<Exit, Failure> {
    let ledger = world.ledger()?;
    let effects_ok = ledger == EFFECTS;
    let verified = world.verify_log()?;
    let decisions = decisions_on_record(world.record())?;
    let record_ok = decisions == tally.calls;
    let ok = effects_ok && record_ok && rows.iter().all(|row| row.ok);
    if out.is_json() {
        out.json(&json!({
            "ok": ok,
            "steps": rows,
            "acceptance_rate": tally.rate(),
            "side_effects": ledger,
            "decisions_on_record": decisions,
            "record": world.record(),
            "record_key": world.log_key(),
        }))?;
    } else {
        let expected = rows.iter().filter(|row| row.ok).count();
        out.line(&format!("\n{expected} of {} verdicts as expected{ending}.", rows.len()))?;
        out.line(&format!("Side effects at the desk: {}.", ledger.join("; ")))?;
        out.line(&format!(
            "{decisions} of {} calls are recorded: {}",
            tally.calls,
            world.record().display()
        ))?;
        out.line(&format!("{verified}. Its public key: {}", world.log_key().display()))?;
        out.line(
            "Look at it with `countersign audit show LOG` and `countersign stats LOG`, and verify it again with\n\
             `countersign audit verify LOG --key KEY`.",
        )?;
    }
    Ok(if ok { Exit::Done } else { Exit::Refused })
}

/// Counts the decisions in the log.
fn decisions_on_record(log: &Path) -> Result<u64, Failure> {
    let mut decisions: u64 = 0;
    for entry in countersign_audit_log::read_log(log)? {
        decisions = decisions.saturating_add(u64::from(matches!(entry?.record(), Record::Decision(_))));
    }
    Ok(decisions)
}
