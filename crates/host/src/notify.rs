//! Runs the operator's command for each question that waits for a person.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use countersign_approval_token::PendingApproval;
use countersign_canonical_json::{Limits, read};

use crate::error::HostError;
use crate::report::Reporter;

/// Most notifications that run at a time. A further question is not notified of.
const MAX_RUNNING: usize = 8;

/// Longest time that a notification may take, in looks.
const MAX_LOOKS: u32 = 300;

/// Interval of looks at a notification.
const LOOK: Duration = Duration::from_millis(100);

/// Prefix of the variables that the command gets.
const PREFIX: &str = "COUNTERSIGN_";

/// A command that is run, without a shell, for each new question. It learns of the question by its environment: `ID` (the
/// beginning of the id that a person types), `CALL_ID`, `KIND` (of the answers it asks for), `SERVER`, `TOOL`, `PRINCIPAL`, `AGENT`, `EXPIRES`, `ARGS_DIGEST`,
/// each behind `COUNTERSIGN_`. It gets no argument values, except `VALUE_1` and so on for pointers that the operator named:
/// canonical JSON, empty if the pointer leads nowhere.
#[derive(Clone, Debug)]
pub struct Notifier {
    program: PathBuf,
    folder: PathBuf,
    arguments: Vec<String>,
    values: Vec<String>,
    running: Arc<AtomicUsize>,
    reporter: Reporter,
}

/// Counts a notification as running until it is dropped.
struct RunningNotice(Arc<AtomicUsize>);

impl Drop for RunningNotice {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Notifier {
    /// Takes a command, the folder in which it runs, and the JSON Pointers of the values that it gets. A program with a `/` is
    /// relative to that folder; any other is looked for in `PATH`.
    ///
    /// # Errors
    /// `CONFIG_NOTIFY` if the command is empty, or a pointer is not one.
    pub fn new(
        command: &[String],
        folder: &Path,
        values: Vec<String>,
        reporter: Reporter,
    ) -> Result<Self, HostError> {
        let wrong = |text: &str| HostError::new("CONFIG_NOTIFY", text);
        let (program, arguments) =
            command.split_first().filter(|(program, _)| !program.is_empty()).ok_or_else(|| {
                wrong("`notify` of `approval` is empty: the program and its arguments expected")
            })?;
        if !values.iter().all(|pointer| pointer.is_empty() || pointer.starts_with('/')) {
            return Err(wrong("`notify_values` of `approval`: JSON Pointers expected"));
        }
        let program = if program.contains('/') { folder.join(program) } else { program.into() };
        let (folder, arguments) = (folder.to_owned(), arguments.to_vec());
        Ok(Self { program, folder, arguments, values, running: Arc::default(), reporter })
    }

    /// Notifies of a question in the background. A failure is a warning to the operator.
    pub fn notify(&self, question: &PendingApproval, short: &str) {
        if self.running.fetch_add(1, Ordering::SeqCst) >= MAX_RUNNING {
            self.running.fetch_sub(1, Ordering::SeqCst);
            return self.warn("too many notifications run already");
        }
        let running = RunningNotice(Arc::clone(&self.running));
        let mut command = self.command(question, short);
        let this = self.clone();
        let run = move || {
            let _running = running;
            this.run(&mut command);
        };
        if thread::Builder::new().name("countersign-notify".to_owned()).spawn(run).is_err() {
            self.warn("no thread for it");
        }
    }

    fn command(&self, question: &PendingApproval, short: &str) -> Command {
        let binding = question.binding();
        let mut command = Command::new(&self.program);
        // Standard output is the client's.
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let agent = binding.agent.as_ref().map(ToString::to_string).unwrap_or_default();
        let facts = [
            ("ID", short.to_owned()),
            ("CALL_ID", question.id().to_string()),
            ("KIND", question.kind().to_owned()),
            ("SERVER", binding.tool.server().to_string()),
            ("TOOL", binding.tool.name().to_string()),
            ("PRINCIPAL", binding.principal.to_string()),
            ("AGENT", agent),
            ("EXPIRES", question.expires().to_string()),
            ("ARGS_DIGEST", binding.args.to_string()),
        ];
        for (name, value) in facts {
            command.env(format!("{PREFIX}{name}"), value);
        }
        let args = read(question.args().as_bytes(), binding.args_recipe, &Limits::hard_caps()).ok();
        for (number, pointer) in (1_u32..).zip(&self.values) {
            let value = args.as_ref().and_then(|args| args.value().pointer(pointer));
            let text = value.map(|value| value.canonical_text()).unwrap_or_default();
            command.env(format!("{PREFIX}VALUE_{number}"), text);
        }
        command
    }

    fn run(&self, command: &mut Command) {
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return self.warn(&error.to_string()),
        };
        for _ in 0..MAX_LOOKS {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(Some(status)) => return self.warn(&status.to_string()),
                Ok(None) => thread::sleep(LOOK),
                Err(error) => return self.warn(&error.to_string()),
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        self.warn("it was ended after 30 s");
    }

    fn warn(&self, why: &str) {
        self.reporter.warn("NOTIFY_FAILED", &format!("`{}`: {why}", self.program.display()));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use countersign_approval_token::PendingApproval;
    use countersign_canonical_json::{Limits, Recipe, read};
    use countersign_core::{AgentId, CallFacts, CallId, Millis, Principal, Timestamp, ToolId};

    use super::Notifier;
    use crate::report::Reporter;

    fn question() -> PendingApproval {
        let args = br#"{"secret":"s3cret","to":"bob\u0000"}"#;
        let args = read(args, Recipe::Jcs1, &Limits::default()).unwrap();
        let (id, tool) = (CallId::new("call-1").unwrap(), ToolId::new("desk", "refund").unwrap());
        let alice = Principal::new("alice").unwrap();
        let facts = CallFacts::new(id, tool, args.digest(), Recipe::Jcs1, alice);
        let facts = facts.agent(AgentId::new("bot").unwrap());
        PendingApproval::new(facts, &args, Timestamp::EPOCH, Millis::from_secs(60)).unwrap()
    }

    fn command(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn command_gets_the_facts_and_the_named_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told");
        let script =
            "env | grep -E '^COUNTERSIGN_([ISTPE]|CALL_ID|A|VALUE)' | sort > told.new && mv told.new told";
        let words = ["sh", "-c", script];
        let values = vec!["/to".to_owned(), "/none".to_owned()];
        let notifier = Notifier::new(&command(&words), folder.path(), values, Reporter::new(|_| {})).unwrap();
        notifier.notify(&question(), "call");
        for _ in 0..1_000 {
            if file.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let digest = question().binding().args;
        let told = format!(
            "COUNTERSIGN_AGENT=bot\nCOUNTERSIGN_ARGS_DIGEST={digest}\nCOUNTERSIGN_CALL_ID=call-1\n\
             COUNTERSIGN_EXPIRES=1970-01-01T00:01:00.000Z\nCOUNTERSIGN_ID=call\nCOUNTERSIGN_PRINCIPAL=alice\n\
             COUNTERSIGN_SERVER=desk\nCOUNTERSIGN_TOOL=refund\n\
             COUNTERSIGN_VALUE_1=\"bob\\u0000\"\nCOUNTERSIGN_VALUE_2=\n"
        );
        assert_eq!(std::fs::read_to_string(file).unwrap(), told);
    }

    #[test]
    fn command_that_fails_is_a_warning() {
        for words in [["false", ""], ["/no/such/program", ""]] {
            let (warned, warnings) = channel();
            let reporter = Reporter::new(move |line| warned.send(line.to_owned()).unwrap());
            let notifier = Notifier::new(&command(&words), Path::new("."), Vec::new(), reporter).unwrap();
            notifier.notify(&question(), "call");
            let line = warnings.recv_timeout(Duration::from_secs(20)).unwrap();
            assert!(line.starts_with(&format!("warning NOTIFY_FAILED: `{}`: ", words[0])), "{line}");
        }
    }

    #[test]
    fn empty_command_and_wrong_pointer_are_refused() {
        for (words, values) in [(&[][..], &[][..]), (&[""], &[]), (&["true"], &["to"])] {
            let folder = Path::new(".");
            let made = Notifier::new(&command(words), folder, command(values), Reporter::new(|_| {}));
            assert_eq!(made.unwrap_err().code(), "CONFIG_NOTIFY");
        }
    }
}
