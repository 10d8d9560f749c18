//! Commands that mend a fault, for a shell.

use std::path::Path;

/// Puts a path between quotation marks that a shell takes off.
pub(super) fn quoted(path: &Path) -> String {
    quoted_text(&path.display().to_string())
}

/// Puts a text between quotation marks that a shell takes off.
pub(super) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns the command that mends a file's mode or owner, by the code of the fault.
pub(super) fn mode_mend(code: &str, path: &Path) -> Option<String> {
    match code {
        "FILE_TOO_OPEN" => Some(format!("chmod go-w {}", quoted(path))),
        "KEY_FILE_TOO_OPEN" => Some(format!("chmod 600 {}", quoted(path))),
        "FILE_OWNER" => Some(format!("sudo chown \"$(id -u)\" {}", quoted(path))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::quoted_text;

    #[test]
    fn path_with_a_quotation_mark_is_one_word() {
        assert_eq!(quoted_text("/srv/ada's; rm x"), r"'/srv/ada'\''s; rm x'");
    }
}
