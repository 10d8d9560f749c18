mod post;

use std::path::{Path, PathBuf};

use clap::Args;
use countersign_audit_log::{
    Submission, SubmissionError, WitnessKey, WitnessRefusal, WitnessedCheckpoint, attach_cosignatures,
};
use countersign_core::{Millis, Timestamp};
use serde_json::{Value, json};

use self::post::{Post, WitnessUrl};
use super::log::{LogArgs, ProvableLog};
use super::receipt::quorum;
use super::verify::root_of;
use crate::failure::{Exit, Failure};
use crate::files::{Replace, must_be_free, read_text_file, write_file};
use crate::output::{Output, note};

#[derive(Debug, Args)]
pub(crate) struct Witness {
    #[command(flatten)]
    log: LogArgs,
    /// Where a witness takes checkpoints: the URL that `/add-checkpoint` follows. May be used several times.
    #[arg(long, value_name = "URL", required = true)]
    witness: Vec<WitnessUrl>,
    /// The public key of that witness, `name+id+key`: the first for the first URL, and so on.
    #[arg(long, value_name = "VKEY", required = true)]
    witness_key: Vec<WitnessKey>,
    /// Required number of cosignatures; without it, one of every witness.
    #[arg(long, value_name = "N")]
    quorum: Option<usize>,
    /// File to write the cosigned checkpoint to; standard output without it. It must not exist.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// File that keeps the latest cosigned checkpoint from one run to the next: the log has to go on from it. It is made
    /// if it is not there, and replaced.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// How long one answer of a witness may take.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: Millis,
    /// Also send over http to other machines: an attacker on the path can then refuse in a witness's name.
    #[arg(long)]
    dangerous_plain_http: bool,
}

/// Result of one witness: its cosignature line, or the failure.
type CosignatureResult = Result<String, Failure>;

impl Witness {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let (posts, quorum) = (self.posts()?, self.quorum()?);
        if let Some(path) = &self.out {
            must_be_free(path, Replace::Never)?;
        }
        let state =
            self.state.iter().filter(|path| path.symlink_metadata().is_ok()).cloned().collect::<Vec<_>>();
        let known: Vec<_> = state.iter().map(|path| (None, path.clone())).collect();
        let mut log = self.log.provable_own(&known)?;
        log.make_durable()?;
        let kept = state.first().map(|path| self.kept(path, &log)).transpose()?;
        let answers: Vec<CosignatureResult> = self
            .witness_key
            .iter()
            .zip(&posts)
            .map(|(witness, post)| {
                ask(post, &mut log, witness, cosigned(kept.as_ref(), witness))
                    .map_err(|failure| failure.about(witness.name()))
            })
            .collect();
        if answers.iter().flatten().count() < quorum {
            return Err(self.too_few(answers, quorum));
        }
        let lines: String = answers.iter().flatten().map(String::as_str).collect();
        let whole = attach_cosignatures(log.prover.note(), &lines, &self.witness_key)
            .map_err(|error| Failure::refused(error.code(), error.to_string()))?;
        // If `--out` cannot be written, the state file stays as it is.
        if let Some(path) = &self.out {
            write_file(path, whole.as_bytes(), Replace::Never)?;
        }
        if let Some(path) = &self.state {
            write_file(path, whole.as_bytes(), Replace::Allowed)?;
        }
        self.print_result(out, &log, &whole, &answers)?;
        Ok(Exit::Done)
    }

    /// Makes a client for each witness.
    fn posts(&self) -> Result<Vec<Post>, Failure> {
        if self.witness.len() != self.witness_key.len() {
            return Err(Failure::usage("one --witness-key for each --witness expected, in the same order"));
        }
        if self.timeout.is_zero() {
            return Err(Failure::usage("--timeout must be above zero"));
        }
        self.witness.iter().map(|to| Post::new(to, self.timeout, self.dangerous_plain_http.into())).collect()
    }

    fn quorum(&self) -> Result<usize, Failure> {
        if quorum(None, &self.witness_key)? != self.witness_key.len() {
            return Err(Failure::usage("duplicate witness: two have the same public key"));
        }
        quorum(self.quorum, &self.witness_key)
    }

    /// Reads the checkpoint that an earlier run had cosigned. The log was verified to extend it.
    fn kept(&self, path: &Path, log: &ProvableLog) -> Result<WitnessedCheckpoint, Failure> {
        WitnessedCheckpoint::verify(&read_text_file(path)?, &log.key, &self.witness_key)
            .map_err(|error| Failure::refused(error.code(), error.to_string()).about(path.display()))
    }

    fn too_few(&self, answers: Vec<CosignatureResult>, quorum: usize) -> Failure {
        let asked = answers.len();
        let mut failures: Vec<Failure> = answers.into_iter().filter_map(Result::err).collect();
        if asked == 1
            && let Some(failure) = failures.pop()
        {
            return failure;
        }
        let refused = failures.iter().any(|failure| failure.exit() == Exit::Refused);
        let said: Vec<String> =
            failures.iter().map(|failure| format!("{}: {}", failure.code(), failure.message())).collect();
        let cosigned = asked.saturating_sub(failures.len());
        let text = format!(
            "too few cosignatures: {cosigned} of {asked} witnesses, {quorum} required; {}",
            said.join("; ")
        );
        let failure = Failure::new("WITNESS_QUORUM", text);
        if refused { failure.into_refusal() } else { failure }
    }

    fn print_result(
        &self,
        out: &mut Output,
        log: &ProvableLog,
        whole: &str,
        answers: &[CosignatureResult],
    ) -> Result<(), Failure> {
        for failure in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            note(&format!("note: {}: {}", failure.code(), failure.line()));
        }
        if out.is_json() {
            return out.json(&self.report(log, whole, answers)?);
        }
        let Some(path) = &self.out else {
            return out.bytes(whole.as_bytes());
        };
        for cosignature in read_back(whole, log, &self.witness_key)?.cosignatures() {
            let at = Timestamp::from_millis(cosignature.seconds.saturating_mul(1_000))
                .map_or_else(|_| format!("second {}", cosignature.seconds), |time| time.to_string());
            out.line(&format!("cosigned by {} at {at}", cosignature.witness.name()))?;
        }
        out.line(&format!(
            "checkpoint of {} entries, cosigned by {} of {} witnesses, in {}",
            log.records(),
            answers.iter().flatten().count(),
            answers.len(),
            path.display()
        ))
    }

    fn report(
        &self,
        log: &ProvableLog,
        whole: &str,
        answers: &[CosignatureResult],
    ) -> Result<Value, Failure> {
        let read = read_back(whole, log, &self.witness_key)?;
        let witnesses: Vec<Value> = self
            .witness_key
            .iter()
            .zip(answers)
            .map(|(witness, answer)| {
                let seconds =
                    read.cosignatures().iter().find(|one| &one.witness == witness).map(|one| one.seconds);
                let error = answer.as_ref().err().map(|it| json!({"code": it.code(), "message": it.line()}));
                json!({"witness": witness.name().as_str(), "seconds": seconds, "error": error})
            })
            .collect();
        Ok(json!({
            "ok": true,
            "origin": log.key.origin().as_str(),
            "size": log.records(),
            "root": root_of(log.prover.checkpoint()),
            "note": whole,
            "out": self.out.as_ref().map(|path| path.display().to_string()),
            "witnesses": witnesses,
        }))
    }
}

/// Returns the size of the kept checkpoint if this witness cosigned it, else 0.
fn cosigned(kept: Option<&WitnessedCheckpoint>, witness: &WitnessKey) -> u64 {
    kept.filter(|kept| kept.cosignatures().iter().any(|one| &one.witness == witness))
        .map_or(0, |kept| kept.checkpoint().size())
}

/// Asks one witness, twice at most. A proof that the log cannot provide is a failure of the log.
fn ask(post: &Post, log: &mut ProvableLog, witness: &WitnessKey, cosigned: u64) -> CosignatureResult {
    let (note, key, size) = (log.prover.note().to_owned(), log.key.clone(), log.records());
    let mut failed = None;
    let prove = |old| log.prover.prove_consistency(old, size).map_err(|error| failed = Some(error)).ok();
    let answer = ask_with(post, Submission::with_proofs(prove, &note, &key, witness, cosigned));
    match failed {
        Some(error) => Err(log.failure(error)),
        None => answer,
    }
}

fn ask_with(post: &Post, submission: Result<Submission<'_>, SubmissionError>) -> CosignatureResult {
    let mut asked = submission.map_err(submission_failure)?;
    loop {
        let (status, body) = post.send(asked.body())?;
        match asked.answer(status, &body) {
            Ok(Some(line)) => return Ok(line),
            Ok(None) => {}
            Err(error @ SubmissionError::Status) => {
                return Err(Failure::new(error.code(), format!("{error}: {status}")));
            }
            Err(error) => return Err(submission_failure(error)),
        }
    }
}

/// Verifies the new note as its readers will.
fn read_back(
    whole: &str,
    log: &ProvableLog,
    witnesses: &[WitnessKey],
) -> Result<WitnessedCheckpoint, Failure> {
    WitnessedCheckpoint::verify(whole, &log.key, witnesses)
        .map_err(|error| Failure::refused(error.code(), error.to_string()))
}

/// Diverging histories and an invalid cosignature are refusals (exit 3); a missing cosignature is an error (exit 1).
fn submission_failure(error: SubmissionError) -> Failure {
    let mishap = matches!(
        error,
        SubmissionError::Busy
            | SubmissionError::Status
            | SubmissionError::Answer
            | SubmissionError::Refused(
                WitnessRefusal::Malformed | WitnessRefusal::Unsigned | WitnessRefusal::UnknownLog
            )
    );
    let text = if let SubmissionError::Refused(refusal) = error {
        format!("the witness refuses: {refusal}")
    } else {
        error.to_string()
    };
    let failure = Failure::new(error.code(), text);
    if mishap { failure } else { failure.into_refusal() }
}
