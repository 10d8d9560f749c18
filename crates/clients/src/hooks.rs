//! The settings of hosts with command hooks: one hook before each tool call, installed and removed.

use crate::edit::{Edit, apply};
use crate::error::ClientFileError;
use crate::json::JsonNode;

/// A host whose settings can hold the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each has settings of its own form")]
pub enum HookApp {
    /// Claude Code: `.claude/settings.local.json` of a project. `onFailure` needs version 2.1.295.
    ClaudeCode,
    /// Cursor: `.cursor/hooks.json` of a project.
    Cursor,
}

/// The settings with the hook in them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstalledHook {
    /// The whole text.
    pub text: String,
    /// The inserted part; the whole text if the file was missing.
    pub inserted: String,
}

impl HookApp {
    /// Name of the event before a tool call.
    const fn event(self) -> &'static str {
        match self {
            Self::ClaudeCode => "PreToolUse",
            Self::Cursor => "preToolUse",
        }
    }

    /// The entry that runs `command`. The host refuses the call if the hook fails in any way.
    fn entry(self, command: &str, timeout_seconds: u32) -> String {
        let command = serde_json::Value::from(command);
        match self {
            Self::ClaudeCode => format!(
                r#"{{"matcher": "*", "hooks": [{{"type": "command", "command": {command}, "timeout": {timeout_seconds}, "onFailure": "block"}}]}}"#
            ),
            Self::Cursor => {
                format!(r#"{{"command": {command}, "timeout": {timeout_seconds}, "failClosed": true}}"#)
            }
        }
    }

    /// Inserts the hook before the other hooks of the settings. All other bytes stay. `before` is `None` if the file is missing.
    ///
    /// # Errors
    /// [`ClientFileError::Malformed`].
    pub fn install(
        self,
        before: Option<&str>,
        command: &str,
        timeout_seconds: u32,
    ) -> Result<InstalledHook, ClientFileError> {
        let (event, entry) = (self.event(), self.entry(command, timeout_seconds));
        let Some(before) = before else {
            let version = if self == Self::Cursor { "\n  \"version\": 1," } else { "" };
            let text = format!("{{{version}\n  \"hooks\": {{\"{event}\": [{entry}]}}\n}}\n");
            return Ok(InstalledHook { text: text.clone(), inserted: text });
        };
        let root = object(JsonNode::read(before)?)?;
        let (at, is_empty, part) = match root.get("hooks") {
            None => (&root, root.members().is_empty(), format!("\"hooks\": {{\"{event}\": [{entry}]}}")),
            Some(hooks) => {
                let hooks = object_ref(hooks)?;
                match hooks.get(event) {
                    None => (hooks, hooks.members().is_empty(), format!("\"{event}\": [{entry}]")),
                    Some(list) => {
                        let elements = list.elements().ok_or_else(|| wrong("a list of hooks expected"))?;
                        (list, elements.is_empty(), entry)
                    }
                }
            }
        };
        let inserted = if is_empty { part } else { format!("{part}, ") };
        let edit = Edit::insert(at.at.start.saturating_add(1), inserted.clone());
        let text = apply(before, vec![edit]).ok_or_else(|| wrong("a place outside of the text"))?;
        JsonNode::read(&text)?;
        Ok(InstalledHook { text, inserted })
    }

    /// Removes the part that [`install`](Self::install) inserted. Returns `None` if nothing else is left.
    ///
    /// # Errors
    /// [`ClientFileError::Malformed`] if the part is not there, or more than once.
    pub fn remove(text: &str, inserted: &str) -> Result<Option<String>, ClientFileError> {
        if text == inserted {
            return Ok(None);
        }
        let mut parts = text.split(inserted);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(head), Some(tail), None) if !inserted.is_empty() => {
                let text = format!("{head}{tail}");
                JsonNode::read(&text)?;
                Ok(Some(text))
            }
            _ => Err(wrong("the hook was changed since it was put in: take it away by hand")),
        }
    }
}

fn object(node: JsonNode) -> Result<JsonNode, ClientFileError> {
    object_ref(&node)?;
    Ok(node)
}

fn object_ref(node: &JsonNode) -> Result<&JsonNode, ClientFileError> {
    if !node.is_object() {
        return Err(wrong("an object expected"));
    }
    if node.has_twins() {
        return Err(wrong("a member comes twice"));
    }
    Ok(node)
}

fn wrong(what: &str) -> ClientFileError {
    ClientFileError::Malformed(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{HookApp, InstalledHook};

    const APPS: [HookApp; 2] = [HookApp::ClaudeCode, HookApp::Cursor];

    fn installed(app: HookApp, before: Option<&str>) -> InstalledHook {
        app.install(before, "countersign hook --profile \"x\"", 600).unwrap()
    }

    fn hook(app: HookApp, text: &str) -> serde_json::Value {
        let text = text.trim_start_matches('\u{feff}').lines().filter(|line| !line.trim().starts_with("//"));
        let value: serde_json::Value = serde_json::from_str(&text.collect::<String>()).unwrap();
        value["hooks"][app.event()][0].clone()
    }

    #[test]
    fn hook_is_the_first_of_its_event_and_fails_closed() {
        let others = [
            "{}",
            "{\"model\": \"x\"}",
            "{\"hooks\": {}}",
            "{\"hooks\": {\"Stop\": []}}",
            "\u{feff}{\r\n // mine\r\n\"hooks\": {\"PreToolUse\": [], \"preToolUse\": []}}",
            "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\"}], \"preToolUse\": [{\"command\": \"x\"}]}}",
        ];
        for (app, before) in APPS.into_iter().flat_map(|app| others.map(|before| (app, before))) {
            let InstalledHook { text, inserted } = installed(app, Some(before));
            let hook = hook(app, &text);
            match app {
                HookApp::ClaudeCode => {
                    assert_eq!(hook["matcher"], "*");
                    assert_eq!(hook["hooks"][0]["onFailure"], "block", "{text}");
                    assert_eq!(hook["hooks"][0]["command"], "countersign hook --profile \"x\"");
                }
                HookApp::Cursor => assert_eq!(hook["failClosed"], true, "{text}"),
            }
            assert_eq!(HookApp::remove(&text, &inserted).unwrap().as_deref(), Some(before));
        }
    }

    #[test]
    fn settings_that_were_made_are_removed_whole() {
        for app in APPS {
            let InstalledHook { text, inserted } = installed(app, None);
            assert!(hook(app, &text).is_object());
            assert_eq!(HookApp::remove(&text, &inserted).unwrap(), None);
        }
    }

    #[test]
    fn settings_of_another_form_stay_as_they_are() {
        for before in [
            "",
            "[]",
            "{",
            "{\"hooks\": []}",
            "{\"hooks\": {\"PreToolUse\": {}}}",
            "{\"hooks\": {}, \"hooks\": {}}",
        ] {
            let refused = HookApp::ClaudeCode.install(Some(before), "x", 600).unwrap_err();
            assert_eq!(refused.code(), "CLIENT_FILE_MALFORMED", "{before}");
        }
    }

    #[test]
    fn hook_that_was_changed_is_not_cut_out() {
        let InstalledHook { text, inserted } = installed(HookApp::ClaudeCode, Some("{\"model\": \"x\"}"));
        for changed in
            [text.replace("block", "continue"), text.replace(&inserted, &inserted.repeat(2)), String::new()]
        {
            assert!(HookApp::remove(&changed, &inserted).is_err(), "{changed}");
        }
    }
}
