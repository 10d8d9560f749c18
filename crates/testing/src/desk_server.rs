use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// A scripted MCP server for tests of a gateway: a shell script that lists tools, appends every call to `calls.txt` in
/// its folder and answers `done`.
///
/// It reads the id at the beginning of a line, where Countersign's gateway writes it. It is not a server for other
/// clients.
///
/// ```
/// use countersign_testing::DeskServer;
/// use serde_json::json;
///
/// let server = DeskServer::of([json!({ "name": "search", "inputSchema": { "type": "object" } })])
///     .on_call(r#""query":"dies""#, "exit 7");
/// let folder = tempfile::tempdir().unwrap();
/// server.write(folder.path());
/// // countersign mcp run --config gateway.toml -- sh server.sh
/// assert!(folder.path().join("server.sh").exists());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct DeskServer {
    pages: Vec<Vec<Value>>,
    hello: String,
    instructions: Option<String>,
    arms: Vec<(String, String)>,
    found: Value,
}

impl DeskServer {
    /// Server that lists these tools.
    pub fn of(tools: impl IntoIterator<Item = Value>) -> Self {
        Self {
            pages: vec![tools.into_iter().collect()],
            hello: String::new(),
            instructions: None,
            arms: Vec::new(),
            found: json!({ "content": [{ "type": "text", "text": "done" }] }),
        }
    }

    /// Lists further tools on a page of their own.
    pub fn page(mut self, tools: impl IntoIterator<Item = Value>) -> Self {
        self.pages.push(tools.into_iter().collect());
        self
    }

    /// Sends this message before it answers `initialize`.
    pub fn hello(mut self, message: &Value) -> Self {
        self.hello = format!("printf '%s\\n' {}; ", quoted(&message.to_string()));
        self
    }

    /// States these instructions for the model.
    pub fn instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.to_owned());
        self
    }

    /// Answers calls with this result.
    pub fn result(mut self, result: Value) -> Self {
        self.found = result;
        self
    }

    /// Runs shell commands for calls whose line contains `text`, instead of the usual answer. `answer '"result":{}'`
    /// answers the call; `$line` is the call. The first fitting text counts.
    pub fn on_call(mut self, text: &str, commands: &str) -> Self {
        self.arms.push((text.to_owned(), commands.to_owned()));
        self
    }

    /// The script.
    #[must_use]
    pub fn script(&self) -> String {
        let mut hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "t", "version": "1" },
        });
        if let Some(instructions) = &self.instructions {
            hello["instructions"] = json!(instructions);
        }
        // The first page has no cursor, and its pattern fits the other requests too: it comes last.
        let pages: String =
            self.pages.iter().enumerate().rev().map(|(at, tools)| self.listed(at, tools)).collect();
        let arm =
            |(text, commands): &(String, String)| format!("        *{}*) {commands} ;;\n", quoted(text));
        let arms: String = self.arms.iter().map(arm).collect();
        format!(
            r#"answer() {{ printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "$id" "$1"; }}
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{{"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) {before}{hello} ;;
{pages}    *'"method":"tools/call"'*)
      printf '%s\n' "$line" >> calls.txt
      case "$line" in
{arms}        *) {found} ;;
      esac ;;
  esac
done
"#,
            before = self.hello,
            hello = answered(&hello),
            found = answered(&self.found),
        )
    }

    fn listed(&self, at: usize, tools: &[Value]) -> String {
        let mut result = json!({ "tools": tools });
        let next = at.saturating_add(1);
        if next < self.pages.len() {
            result["nextCursor"] = json!(next.to_string());
        }
        let cursor = if at == 0 { String::new() } else { format!("'\"cursor\":\"{at}\"'*") };
        format!("    *'\"method\":\"tools/list\"'*{cursor}) {} ;;\n", answered(&result))
    }

    /// Writes the script to `server.sh`.
    pub fn write(&self, folder: &Path) {
        fs::write(folder.join("server.sh"), self.script()).expect("a writable folder");
    }
}

fn answered(result: &Value) -> String {
    format!("answer {}", quoted(&format!("\"result\":{result}")))
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
