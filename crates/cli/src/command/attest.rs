use std::path::{Path, PathBuf};

use clap::Args;
use countersign_core::{Millis, OperatorId};
use countersign_host::config_file::ConfigFile;
use countersign_host::person::system_user;
use countersign_host::questions::{
    AttestableCall, QuestionContext, UnsignedAttestation, describe, describe_attestation,
};
use countersign_host::sign_command::SignCommand;
use countersign_keys::{Signature, SigningKey};
use serde_json::json;

use crate::config_args::ConfigArgs;
use crate::failure::{Exit, Failure};
use crate::files::read_signers;
use crate::output::{Output, ask_at_terminal, internal, note, reporter};

/// Attest to a call that waits for evidence: sign that its reasons are true, for exactly this call, once.
///
/// Takes every binding from the waiting call, and says first what would still refuse it after the attestation. Shows the
/// call, the claims, the evidence files and the signed bytes, and asks. The answer is recorded before it counts. The client's
/// next try of the same tool with the same arguments uses it up.
///
/// A call that came without a proposal, or with one that does not deserve a signature, is attested to in your own words:
/// --intent states its purpose, and --evidence names files of the evidence folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign attest k3f9 --key finance.key --key-id finance\n  \
    countersign attest k3f9 --key finance.key --key-id finance --intent 'pay invoice 17'\n  \
    countersign attest k3f9 --key-id finance --sign-with ./sign.sh\n  \
    countersign approve k3f9 --deny --reason 'no such invoice'")]
pub(crate) struct AttestArgs {
    /// The attestation id that the client received, or a unique prefix of four or more characters.
    id: String,
    /// The signing key, as `keys generate --kind ed25519` makes it.
    #[arg(long, value_name = "FILE", conflicts_with = "sign_with")]
    key: Option<PathBuf>,
    /// The id under which the keyring has the key.
    #[arg(long, value_name = "ID")]
    key_id: String,
    /// A program that signs instead of a key file: it reads the bytes on standard input and prints the signature in base64.
    /// Without it and without --key, `sign_with` of `proposals` in the configuration.
    #[arg(long, value_name = "PROGRAM")]
    sign_with: Option<String>,
    /// What the call is to do, in your words: they take the place of the agent's proposal.
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,
    /// With --intent, a file of the evidence folder that the attestation binds; may be repeated.
    #[arg(long, value_name = "NAME", requires = "intent")]
    evidence: Vec<String>,
    /// The input of the agent's proposal that the attestation raises; without it, the first that a claim cites.
    #[arg(long, value_name = "ID", conflicts_with = "intent")]
    evidence_id: Option<String>,
    /// How long it counts: a number and ms, s, m, h or d.
    #[arg(long, default_value = "10m")]
    ttl: Millis,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Show what would be signed, and sign nothing.
    #[arg(long, conflicts_with = "yes")]
    show: bool,
    #[command(flatten)]
    config: ConfigArgs,
    /// Your name, which is recorded; without it the operating system's name of the user that runs this command.
    #[arg(long, value_name = "NAME")]
    by: Option<OperatorId>,
}

/// The signer's key: in a file, or behind a command.
enum SigningKeySource {
    Key(SigningKey),
    Command(SignCommand),
}

impl AttestArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let configs = self.config.read_all()?;
        let queues = configs.queues()?;
        let (queue, id) = queues.find(&self.id, self.yes)?;
        let call = queue.attestable(&id, &reporter())?;
        let signer = if self.show { None } else { Some(self.signer(queue.config())?) };
        let text = self.proposal(&call)?;
        let unsigned = call.draft(&text, &self.key_id, self.evidence_id.as_deref(), self.ttl)?;
        let pending = call.pending();
        let shown =
            format!("{}\n{}", describe(pending, &queue.context(pending)?), describe_attestation(&unsigned));
        let Some(signer) = signer else {
            let report = json!({"ok": true, "call_id": id, "signed": unsigned.payload()});
            out.result(&report, &shown)?;
            return Ok(Exit::Done);
        };
        signer.check(&unsigned)?;
        let by = self.by.clone().or_else(system_user);
        let by = by.ok_or_else(|| Failure::usage("the system names no user: give your name with --by"))?;
        // A record that cannot be written costs no signature.
        let record = queue.answer_record(&reporter())?;
        note(&shown);
        if !self.yes {
            ask(&call, &self.key_id)?;
        }
        let signature = signer.sign(&unsigned)?;
        let signed = call.complete(unsigned, signature)?;
        queue.attest(&call, &signed, &by, record)?;
        let (expires, key_id) = (signed.expires(), &self.key_id);
        let more = if queue.lacks_approval(&id)? { "; it waits for an approval, too" } else { "" };
        let report = json!({"ok": true, "call_id": id, "by": by, "key_id": key_id, "expires": expires});
        out.result(&report, &format!("{id} attested to by {by} with {key_id} until {expires}{more}"))?;
        Ok(Exit::Done)
    }

    fn signer(&self, config: &ConfigFile) -> Result<SigningKeySource, Failure> {
        if let Some(path) = &self.key {
            let key = read_signers(std::slice::from_ref(path))?.pop();
            return key.map(SigningKeySource::Key).ok_or_else(|| internal("no key"));
        }
        let given = self.sign_with.as_ref();
        let given = given.map(|program| SignCommand::new(std::slice::from_ref(program), Path::new(".")));
        let command = given.map_or_else(|| config.sign_command(), |command| command.map(Some))?;
        command.map(SigningKeySource::Command).ok_or_else(|| {
            Failure::usage(
                "a signature needs --key, --sign-with, or `sign_with` of `proposals` in the configuration",
            )
        })
    }

    /// The proposal that came, or one in the signer's words.
    fn proposal(&self, call: &AttestableCall) -> Result<String, Failure> {
        if let Some(intent) = &self.intent {
            return Ok(call.own_proposal(intent, &self.evidence)?);
        }
        match call.proposal_text() {
            Some(text) => Ok(text.to_owned()),
            None if self.yes || self.show => {
                let text = "no usable proposal came with the call: say with --intent what it is to do";
                Err(Failure::new("ATTEST_NO_PROPOSAL", text))
            }
            None => {
                note("No usable proposal came with the call. It asks for:");
                note(&describe(call.pending(), &QuestionContext::default()));
                let intent = ask_at_terminal("What is it to do, in your words? (empty: sign nothing) ")?;
                let intent = intent.trim();
                if intent.is_empty() {
                    return Err(unsigned());
                }
                Ok(call.own_proposal(intent, &self.evidence)?)
            }
        }
    }
}

impl SigningKeySource {
    /// Fails early if the key in the file is another one.
    fn check(&self, unsigned: &UnsignedAttestation) -> Result<(), Failure> {
        match self {
            Self::Key(key) if key.verifying_key() != *unsigned.key() => {
                let text = format!("not the key that the keyring has as `{}`", unsigned.key_id());
                Err(Failure::refused("ATTEST_SIGNATURE", text))
            }
            Self::Key(_) | Self::Command(_) => Ok(()),
        }
    }

    fn sign(&self, unsigned: &UnsignedAttestation) -> Result<Signature, Failure> {
        let bytes = unsigned.payload().as_bytes();
        match self {
            Self::Key(key) => Ok(key.sign(bytes)),
            Self::Command(command) => Ok(command.sign(bytes, unsigned.key_id())?),
        }
    }
}

/// Asks on the terminal whether to sign. Long arguments may have scrolled the call off the screen.
fn ask(call: &AttestableCall, key_id: &str) -> Result<(), Failure> {
    let binding = call.pending().binding();
    let question = format!(
        "Sign for exactly this call, once, as {key_id}: {} for {}, arguments sha-256 {}? [y: sign, anything else: do not] ",
        binding.tool, binding.principal, binding.args
    );
    let answer = ask_at_terminal(&question)?;
    if ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) { Ok(()) } else { Err(unsigned()) }
}

fn unsigned() -> Failure {
    Failure::refused("NOT_SIGNED", "nothing was signed: the call still waits")
}
