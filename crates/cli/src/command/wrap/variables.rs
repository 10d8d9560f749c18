//! Variables in the entries of clients.

use std::path::Path;

/// Value of a variable that only the client knows, for as long as the tools are listed.
pub(super) const UNKNOWN_VALUE: &str = "unknown-to-countersign";

/// Puts in what clients put in for `${..}`, as far as it is known here.
pub(crate) fn expanded(text: &str, folder: &Path) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((name, after)) = behind.split_once('}') else { break };
        out.push_str(before);
        let (name, default) = name.split_once(":-").map_or((name, None), |(name, value)| (name, Some(value)));
        let variable = |name: &str| std::env::var(name).ok();
        let value = match name {
            "workspaceFolder" => {
                let own = folder.ends_with(".vscode") || folder.ends_with(".cursor");
                let folder = if own { folder.parent().unwrap_or(folder) } else { folder };
                Some(folder.display().to_string())
            }
            "userHome" => variable("HOME"),
            name => variable(name.strip_prefix("env:").unwrap_or(name)),
        };
        out.push_str(value.as_deref().or(default).unwrap_or(UNKNOWN_VALUE));
        rest = after;
    }
    out.push_str(rest);
    out
}
