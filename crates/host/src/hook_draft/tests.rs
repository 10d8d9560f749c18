use countersign_core::AgentId;
use countersign_registry::RegistryDraft;
use serde_json::{Value, json};

use super::hook_draft;
use crate::hook_event::HookHost;

fn draft(host: HookHost) -> Value {
    hook_draft(host, &AgentId::new("coder").unwrap(), "/srv/app", &["mcp__desk__pay".to_owned()]).unwrap()
}

#[test]
fn every_hosts_draft_is_a_registry() {
    for host in HookHost::ALL {
        RegistryDraft::from_json(draft(host).to_string().as_bytes()).unwrap();
    }
}

#[test]
fn only_reading_and_the_hosts_own_display_are_free() {
    let changes = [
        "bash", "shell", "write", "edit", "fetch", "search", "task", "agent", "delete", "kill", "pay",
        "skill",
    ];
    let harmless = ["TodoWrite", "TaskGet", "TaskList", "BashOutput", "ListAgents", "ToolSearch"];
    for host in HookHost::ALL {
        for tool in draft(host)["tools"].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let is_change = changes.iter().any(|word| name.to_lowercase().contains(word));
            let is_free = tool["approval"] == json!("not_required");
            assert!(!is_free || !is_change || harmless.contains(&name), "{name} of {host} is free");
        }
    }
}

#[test]
fn reading_outside_the_folder_needs_an_approval() {
    let draft = draft(HookHost::ClaudeCode);
    let read = draft["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "Read").unwrap();
    assert_eq!(read["approval"]["rule"], "required");
    assert_eq!(read["approval"]["unless"][0][0]["roots"], json!(["/srv/app"]));
}
