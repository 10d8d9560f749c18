use super::{HookEvent, HookHost};

fn read(host: HookHost, event: &str) -> (String, String, String) {
    let event = HookEvent::read(host, event.as_bytes()).unwrap();
    (event.session.as_str().to_owned(), event.tool, event.args.own().as_str().to_owned())
}

fn refused(host: HookHost, event: &str) -> String {
    HookEvent::read(host, event.as_bytes()).unwrap_err().reason
}

fn triple(session: &str, tool: &str, args: &str) -> (String, String, String) {
    (session.to_owned(), tool.to_owned(), args.to_owned())
}

#[test]
fn event_of_claude_code_is_read() {
    let event = r#"{"session_id":"s1","transcript_path":"/t","cwd":"/p","permission_mode":"default",
        "hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"toolu_1"}"#;
    assert_eq!(read(HookHost::ClaudeCode, event), triple("s1", "Bash", r#"{"command":"ls"}"#));
    let event = HookEvent::read(HookHost::ClaudeCode, event.as_bytes()).unwrap();
    assert_eq!(event.tool_use.as_deref(), Some("toolu_1"));
}

#[test]
fn events_of_cursor_are_read() {
    let general = r#"{"conversation_id":"c1","hook_event_name":"preToolUse","tool_name":"Write",
        "tool_input":{"file_path":"a"},"cursor_version":"2.5"}"#;
    assert_eq!(read(HookHost::Cursor, general), triple("c1", "Write", r#"{"file_path":"a"}"#));
    let shell = r#"{"conversation_id":"c1","generation_id":"g","hook_event_name":"beforeShellExecution",
        "command":"ls","cwd":"/p","workspace_roots":["/p"]}"#;
    assert_eq!(read(HookHost::Cursor, shell), triple("c1", "Shell", r#"{"command":"ls","cwd":"/p"}"#));
    let mcp = r#"{"conversation_id":"c1","hook_event_name":"beforeMCPExecution","tool_name":"pay",
        "tool_input":"{\"amount\":1}","command":"desk"}"#;
    assert_eq!(read(HookHost::Cursor, mcp), triple("c1", "MCP/pay", r#"{"amount":1}"#));
    let general = r#"{"hook_event_name":"preToolUse","conversation_id":"c1","tool_name":"MCP:pay","tool_input":{"amount":1}}"#;
    assert_eq!(read(HookHost::Cursor, general), triple("c1", "MCP/pay", r#"{"amount":1}"#));
    let file =
        r#"{"conversation_id":"c1","hook_event_name":"beforeReadFile","file_path":"/p/a","content":"x"}"#;
    assert_eq!(read(HookHost::Cursor, file), triple("c1", "Read", r#"{"file_path":"/p/a"}"#));
}

#[test]
fn both_formats_of_copilot_are_read() {
    let own =
        r#"{"sessionId":"s","timestamp":1,"cwd":"/p","toolName":"bash","toolArgs":"{\"command\":\"ls\"}"}"#;
    assert_eq!(read(HookHost::Copilot, own), triple("s", "bash", r#"{"command":"ls"}"#));
    let other =
        r#"{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"edit","tool_input":{"path":"a"}}"#;
    assert_eq!(read(HookHost::Copilot, other), triple("s", "edit", r#"{"path":"a"}"#));
}

#[test]
fn event_of_another_moment_is_refused() {
    let after = r#"{"hook_event_name":"PostToolUse","session_id":"s","tool_name":"Bash","tool_input":{}}"#;
    assert_eq!(refused(HookHost::ClaudeCode, after), "`PreToolUse` expected");
    assert_eq!(refused(HookHost::Copilot, after), "`preToolUse` expected");
    assert!(refused(HookHost::Cursor, after).contains("expected"));
}

#[test]
fn argument_list_is_refused() {
    for args in ["[]", "7", "null", r#""[]""#, r#""not json""#, r#""{\"a\":1,\"a\":2}""#] {
        let event = format!(
            r#"{{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{args}}}"#
        );
        refused(HookHost::ClaudeCode, &event);
    }
}

#[test]
fn repeated_member_is_refused() {
    let event = r#"{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read","tool_name":"Bash","tool_input":{}}"#;
    assert!(refused(HookHost::ClaudeCode, event).contains("JSON_DUPLICATE"));
}

#[test]
fn missing_member_is_refused_under_its_session() {
    let event = br#"{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash"}"#;
    let bad = HookEvent::read(HookHost::ClaudeCode, event).unwrap_err();
    assert_eq!((bad.session.unwrap().as_str(), bad.reason.as_str()), ("s", "`tool_input` is missing"));
    let event = br#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}"#;
    assert!(HookEvent::read(HookHost::ClaudeCode, event).unwrap_err().session.is_none());
}
