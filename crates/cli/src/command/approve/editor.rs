//! Opens the arguments of a call in the person's editor.

use std::path::Path;
use std::process::Command;

use countersign_host::files::{read_text_file, write_secret_file};
use countersign_host::random;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::internal;

/// Lets the person edit canonical JSON in `$VISUAL` or `$EDITOR`, and returns the text as it was saved. The file is readable by
/// its owner alone and is removed.
pub(super) fn edit_text(json: &str) -> Result<String, Failure> {
    let named = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor = named.filter(|editor| !editor.trim().is_empty());
    let editor =
        editor.ok_or_else(|| Failure::new("NO_EDITOR", "neither VISUAL nor EDITOR names an editor"))?;
    let value: Value = serde_json::from_str(json).map_err(|_| internal("the arguments are not JSON"))?;
    let pretty = serde_json::to_string_pretty(&value).map_err(|_| internal("the arguments are not JSON"))?;
    let name: countersign_core::TokenId = random::id("countersign-edit")?;
    let path = std::env::temp_dir().join(format!("{name}.json"));
    write_secret_file(&path, (pretty + "\n").as_bytes())?;
    let text = edited(&editor, &path);
    let _ = std::fs::remove_file(&path);
    text
}

fn edited(editor: &str, path: &Path) -> Result<String, Failure> {
    let failed = |why: &str| Failure::new("NO_EDITOR", format!("`{editor}`: {why}"));
    let mut words = editor.split_whitespace();
    let program = words.next().ok_or_else(|| failed("empty"))?;
    let status = Command::new(program).args(words).arg(path).status();
    let status = status.map_err(|error| failed(&error.to_string()))?;
    if !status.success() {
        return Err(failed(&status.to_string()));
    }
    Ok(read_text_file(path)?)
}
