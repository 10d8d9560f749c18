//! Commands that mend a fault, for a shell.

use std::path::Path;

use crate::minting::shell_word;

/// Writes a path as one word of a shell.
pub(super) fn quoted(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// Returns the command that mends a file's mode or owner, by the code of the fault.
pub(super) fn mode_mend(code: &str, path: &Path) -> Option<String> {
    match code {
        "FILE_TOO_OPEN" => Some(format!("chmod go-w {}", quoted(path))),
        "KEY_FILE_TOO_OPEN" | "STORE_TOO_OPEN" => Some(format!("chmod 600 {}", quoted(path))),
        "FILE_OWNER" => Some(format!("sudo chown \"$(id -u)\" {}", quoted(path))),
        _ => None,
    }
}
