//! The person at this terminal: their name, and secrets that they type.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use countersign_core::{OperatorId, Principal};
use zeroize::Zeroizing;

use crate::error::HostError;

/// File of the local users: lines of fields between colons, the name first, the user id third (`passwd(5)`).
#[cfg(unix)]
const USERS: &str = "/etc/passwd";

/// Returns the name of the user that runs this process: the name of the real user id, or `uid-1000` if the system's file of local
/// users has no usable name for it. No environment variable is read.
#[must_use]
pub fn system_user() -> Option<OperatorId> {
    #[cfg(unix)]
    {
        let uid = rustix::process::getuid().as_raw();
        let users = std::fs::read_to_string(USERS).unwrap_or_default();
        name_of(uid, &users).or_else(|| OperatorId::new(&format!("uid-{uid}")).ok())
    }
    #[cfg(not(unix))]
    {
        None
    }
}

/// Returns the user that runs this process as the principal of its calls.
///
/// # Errors
/// `PRINCIPAL_UNKNOWN` if the system does not name the user.
pub fn system_principal() -> Result<Principal, HostError> {
    let user = system_user().and_then(|user| Principal::new(user.as_str()).ok());
    user.ok_or_else(|| HostError::new("PRINCIPAL_UNKNOWN", "the system does not name this process's user"))
}

#[cfg(unix)]
fn name_of(uid: u32, users: &str) -> Option<OperatorId> {
    let uid = uid.to_string();
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&uid))?;
    OperatorId::new(line.split(':').next()?).ok()
}

/// Reads a line from standard input. At a terminal it shows the prompt on standard error and does not echo the input.
///
/// # Errors
/// Those of reading and of the terminal; the end of the input.
pub fn read_unseen(prompt: &str) -> io::Result<Zeroizing<String>> {
    let input = io::stdin();
    let unseen = Unseen::begin(&input, prompt)?;
    let mut line = Zeroizing::new(String::new());
    let count = input.lock().read_line(&mut line)?;
    drop(unseen);
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let end = line.trim_end_matches(['\n', '\r']).len();
    line.truncate(end);
    Ok(line)
}

/// A terminal without echo, until it is dropped.
struct Unseen {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Unseen {
    fn begin(input: &io::Stdin, prompt: &str) -> io::Result<Self> {
        if !input.is_terminal() {
            return Ok(Self {
                #[cfg(unix)]
                before: None,
            });
        }
        let mut err = io::stderr();
        write!(err, "{prompt}").and_then(|()| err.flush())?;
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
            let before = tcgetattr(input)?;
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO);
            tcsetattr(input, OptionalActions::Flush, &quiet)?;
            Ok(Self { before: Some(before) })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};
            // Nothing can be done about a terminal that is gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
            let _ = writeln!(io::stderr());
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::{name_of, system_user};

    #[test]
    fn the_name_of_a_user_id_is_found() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000:Ada 7,1001,:/home/ada:/bin/sh\n";
        assert_eq!(name_of(1000, users).unwrap().as_str(), "ada");
        assert_eq!(name_of(0, users).unwrap().as_str(), "root");
        assert!(name_of(1001, users).is_none());
        assert!(name_of(7, "\u{202e}:x:7:7:::\n").is_none());
    }

    #[test]
    fn this_process_has_a_user() {
        assert!(system_user().is_some());
    }
}
