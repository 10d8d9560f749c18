use clap::Args;
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_committed_plan::{HeaderProof, PlanHeader, PlanLimits, PlanRoot, StepProof, VerifiedStep};
use countersign_core::{RunId, SessionId, ToolId};
use serde_json::json;

use countersign_host::inputs::malformed;
use countersign_host::inputs::run_keys;

use crate::command::token::DEFAULT_RUN;
use crate::failure::{Exit, Failure};
use crate::files::{Source, read_text};
use crate::output::{Output, counted};

#[derive(Debug, Args)]
pub(crate) struct PlanVerifyArgs {
    /// The plan's root, from a trusted source: an approval, a record, `plan commit`.
    #[arg(long, value_name = "SHA256", required_unless_present = "sealed", conflicts_with = "sealed")]
    root: Option<PlanRoot>,
    /// The plan's root, sealed by `plan commit --seal`; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT", requires_all = ["key_file", "session"])]
    sealed: Option<String>,
    /// The HMAC key file that the root was sealed with.
    #[arg(long, value_name = "KEYFILE", requires = "sealed")]
    key_file: Option<std::path::PathBuf>,
    /// Run whose key sealed.
    #[arg(long, default_value = DEFAULT_RUN)]
    run: RunId,
    /// The session that the root was sealed for.
    #[arg(long, requires = "sealed")]
    session: Option<SessionId>,
    /// The proof, as `plan prove` printed it; `-` is standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    proof: Source,
    /// Check whether a call of this tool, as server:name, is the step's.
    #[arg(long, value_name = "TOOL", requires = "args", value_parser = tool)]
    call: Option<ToolId>,
    /// The call's arguments, as JSON; `-` is standard input.
    #[arg(long, value_name = "FILE", requires = "call")]
    args: Option<Source>,
}

impl PlanVerifyArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let stdin = [self.sealed.as_deref() == Some("-"), self.proof == Source::Stdin];
        let stdin = stdin.into_iter().chain([self.args == Some(Source::Stdin)]);
        if stdin.filter(|from| *from).count() > 1 {
            return Err(Failure::usage(
                "only one of --sealed, --proof and --args can come from standard input",
            ));
        }
        let root = self.root()?;
        let limits = PlanLimits::default();
        let cap = u64::try_from(limits.max_bytes()).unwrap_or(u64::MAX).saturating_add(1);
        let bytes = self.proof.read_prefix(cap)?;
        if !is_header(&bytes) {
            let proof = StepProof::from_json(&bytes, &limits)?;
            let step = proof.verify(&root).map_err(|breach| {
                let text = format!("the proof does not lead to the root: {}", breach.reason());
                Failure::refused(breach.code(), text)
            })?;
            return self.tell_step(out, &step);
        }
        if self.call.is_some() {
            return Err(Failure::usage("--call is only valid for the proof of a step, not of the header"));
        }
        let proof = HeaderProof::from_json(&bytes, &limits)?;
        let header = proof.verify(&root).map_err(|error| Failure::from(error).into_refusal())?;
        tell_header(out, &root, header.header())
    }

    fn root(&self) -> Result<PlanRoot, Failure> {
        let (Some(sealed), Some(key_file), Some(session)) = (&self.sealed, &self.key_file, &self.session)
        else {
            return self.root.ok_or_else(|| Failure::usage("--root or --sealed is needed"));
        };
        let (text, keys) = (read_text(sealed)?, run_keys(key_file, &self.run)?);
        let (_, key) = keys.active();
        PlanRoot::open(&text, session, key).map_err(|error| Failure::from(error).into_refusal())
    }

    fn tell_step(&self, out: &mut Output, step: &VerifiedStep) -> Result<Exit, Failure> {
        let (index, steps, tool) = (step.index(), step.steps(), step.step().tool());
        let mut text = format!("step {index} of {steps} of plan {}: {tool}", step.root());
        if let Some((call, args)) = self.call.as_ref().zip(self.args.as_ref()) {
            step.admits(call, &read_args(args)?).map_err(|breach| {
                Failure::refused(breach.code(), format!("the call is not the step's: {}", breach.reason()))
            })?;
            text.push_str("\nthe call is the step's");
        }
        let report = json!({
            "ok": true,
            "root": step.root(),
            "index": index,
            "steps": steps,
            "tool": tool,
            "call_fits": self.call.as_ref().map(|_| true),
        });
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }
}

fn tell_header(out: &mut Output, root: &PlanRoot, header: &PlanHeader) -> Result<Exit, Failure> {
    let context = header.context();
    let (session, version) = (context.session(), context.registry_version());
    let report = json!({
        "ok": true,
        "root": root,
        "steps": header.steps(),
        "goal": context.goal(),
        "session": session,
        "registry_version": version,
        "amends": header.amends().map(|amends| json!({"root": amends.root(), "position": amends.position()})),
    });
    let mut text = format!(
        "plan {root}: {}, for session {session} and goal sha-256 {} under registry {version}",
        counted(header.steps(), "step"),
        context.goal()
    );
    if let Some(amends) = header.amends() {
        text.push_str(&format!("\namends {} after step {}", amends.root(), amends.position()));
    }
    out.result(&report, &text)?;
    Ok(Exit::Done)
}

/// Returns `true` if the proof has a `header` member.
fn is_header(bytes: &[u8]) -> bool {
    let limits = Limits::hard_caps();
    read(bytes, Recipe::Jcs1, &limits).is_ok_and(|json| json.value().get("header").is_some())
}

fn read_args(from: &Source) -> Result<Canonical, Failure> {
    let limits = Limits::default();
    let cap = u64::try_from(limits.max_bytes()).unwrap_or(u64::MAX).saturating_add(1);
    Ok(read(&from.read_prefix(cap)?, Recipe::Jcs1, &limits)
        .map_err(|error| malformed(&error).about("--args"))?)
}

/// Parses a tool id `server:name`.
fn tool(text: &str) -> Result<ToolId, String> {
    let (server, name) = text.split_once(':').ok_or_else(|| "not server:name".to_owned())?;
    ToolId::new(server, name).map_err(|error| error.to_string())
}
