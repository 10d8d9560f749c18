//! A signing command of the operator's: it gets bytes on standard input and prints their signature. The key stays with it.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use countersign_keys::Signature;

use crate::error::HostError;

/// Longest time that a signature may take, in looks: two minutes, enough to touch a hardware key.
const MAX_LOOKS: u32 = 1_200;

/// Interval of looks at the command.
const LOOK: Duration = Duration::from_millis(100);

/// Most bytes that the command may print. A signature has 88 characters.
const MAX_PRINTED: u64 = 1_024;

/// Variable that names the key.
const KEY_ID: &str = "COUNTERSIGN_KEY_ID";

/// A program and its arguments, run without a shell. It reads the bytes to sign on standard input and prints the Ed25519
/// signature in standard base64. `COUNTERSIGN_KEY_ID` names the key. Its standard error and its terminal are the caller's.
#[derive(Clone, Debug)]
pub struct SignCommand {
    program: PathBuf,
    arguments: Vec<String>,
}

impl SignCommand {
    /// Takes a command. A program with a `/` is relative to `folder`; any other is looked for in `PATH`.
    ///
    /// # Errors
    /// `CONFIG_SIGN` if the command is empty.
    pub fn new(command: &[String], folder: &Path) -> Result<Self, HostError> {
        let empty =
            || HostError::new("CONFIG_SIGN", "`sign_with` is empty: the program and its arguments expected");
        let (program, arguments) =
            command.split_first().filter(|(program, _)| !program.is_empty()).ok_or_else(empty)?;
        let program = if program.contains('/') { folder.join(program) } else { program.into() };
        Ok(Self { program, arguments: arguments.to_vec() })
    }

    /// Has `bytes` signed by the key of this id. The signature is not verified here.
    ///
    /// # Errors
    /// `SIGN_COMMAND` if the command does not run, fails, takes too long or prints anything but one signature.
    pub fn sign(&self, bytes: &[u8], key_id: &str) -> Result<Signature, HostError> {
        let failed = |why: &str| HostError::new("SIGN_COMMAND", why).about(self.program.display());
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env(KEY_ID, key_id)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&format!("does not run: {error}")))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let to_sign = bytes.to_vec();
        // A command that does not read must not block this one. It may also leave the input unread.
        thread::spawn(move || input.map(|mut input| input.write_all(&to_sign)));
        let printed = thread::spawn(move || {
            let mut text = Vec::new();
            let read = output.map(|output| output.take(MAX_PRINTED).read_to_end(&mut text));
            read.and_then(Result::ok).map(|_| text)
        });
        let Some(status) = wait(&mut child) else {
            // The thread that reads ends with the command's output.
            let _ = child.kill().and_then(|()| child.wait());
            return Err(failed("takes too long"));
        };
        if !status.success() {
            return Err(failed(&format!("failed: {status}")));
        }
        let printed = printed.join().ok().flatten().and_then(|text| String::from_utf8(text).ok());
        let signature =
            printed.and_then(|text| Signature::from_base64(text.trim_end_matches(['\r', '\n'])).ok());
        signature.ok_or_else(|| failed("printed no signature: 64 bytes in standard base64 expected"))
    }
}

/// Waits for the command's end; `None` if it takes too long.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    for _ in 0..MAX_LOOKS {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(LOOK);
    }
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use countersign_keys::SigningKey;

    use super::SignCommand;

    fn run(script: &str) -> Result<countersign_keys::Signature, &'static str> {
        let command = ["sh", "-c", script].map(str::to_owned);
        let command = SignCommand::new(&command, Path::new("."));
        command.and_then(|command| command.sign(b"to be signed", "finance")).map_err(|error| error.code())
    }

    #[test]
    fn command_gets_the_bytes_and_prints_the_signature() {
        let key = SigningKey::from_seed([1; 32]);
        let signature = key.sign(b"to be signed").to_base64();
        let script = format!(
            "[ \"$(cat)\" = 'to be signed' ] && [ \"$COUNTERSIGN_KEY_ID\" = finance ] && echo '{signature}'"
        );
        let made = run(&script).unwrap();
        assert!(key.verifying_key().verify(b"to be signed", &made).is_ok());
        // A command need not read its input.
        assert!(run(&format!("printf %s '{signature}'")).is_ok());
    }

    #[test]
    fn command_that_prints_no_signature_is_an_error() {
        for script in ["true", "echo no", "echo AAAA; exit 0", "exit 3", "head -c 5000 /dev/zero"] {
            assert_eq!(run(script).unwrap_err(), "SIGN_COMMAND", "{script}");
        }
        let absent = ["./absent".to_owned()];
        let absent = SignCommand::new(&absent, Path::new("/nowhere")).unwrap();
        assert_eq!(absent.sign(b"", "finance").unwrap_err().code(), "SIGN_COMMAND");
        for empty in [vec![], vec![String::new()]] {
            assert_eq!(SignCommand::new(&empty, Path::new(".")).unwrap_err().code(), "CONFIG_SIGN");
        }
    }
}
