// A few rules that replace a language model, so that no network is needed. Like any model, they read their input and derive the
// answer from it; no answer is prepared.

use serde_json::{Value, json};

/// Answers the instructions for this input.
pub(crate) fn think(instructions: &str, about: &str) -> Option<String> {
    let about: Value = serde_json::from_str(about).ok()?;
    match instructions.split_whitespace().take(2).collect::<Vec<_>>().as_slice() {
        ["You", "plan"] => plan(&about),
        ["You", "inspect"] => inspect(&about),
        ["You", "fill"] => fill_in(&about),
        ["The", "plan"] => answer(&about),
        _ => None,
    }
}

/// Reads the ticket, looks for the parcel, and writes to the customer that the goal names.
fn plan(about: &Value) -> Option<String> {
    let goal = about["goal"].as_str()?;
    let ticket = goal.split(' ').find(|word| word.starts_with("T-"))?;
    let customer = goal.split(' ').find(|word| word.contains('@'))?;
    let plan = json!({"goal": goal, "steps": [
        {"id": 1, "tool": "desk:read_ticket", "args": {"id": ticket}, "description": "See what is asked"},
        {"id": 2, "tool": "desk:track_parcel", "args": {"ticket": ticket}, "description": "Find the parcel"},
        {"id": 3, "tool": "desk:send_mail", "args": {"to": customer, "body": "<DYNAMIC>"}, "description": "Answer"},
    ]});
    Some(format!("<planthenexecute>\n{plan}\n</planthenexecute>"))
}

/// Halts a plan that writes to a recipient whom the goal does not name.
fn inspect(about: &Value) -> Option<String> {
    let goal = about["goal"].as_str()?;
    let steps = about["steps"].as_array()?;
    let stranger = steps.iter().find(|step| writes_to(step).is_some_and(|to| !goal.contains(to)));
    Some(match stranger {
        Some(step) => format!("HALT: step {} writes to somebody whom the goal does not name", step["id"]),
        None => "SAFE".to_owned(),
    })
}

fn writes_to(step: &Value) -> Option<&str> {
    step.pointer("/args/to").and_then(Value::as_str)
}

/// Fills the open arguments with the last tool's result.
fn fill_in(about: &Value) -> Option<String> {
    let step = &about["step"];
    let last = about["returned"].as_array()?.last();
    let known = last.and_then(|seen| seen["data"].as_str()).unwrap_or_default().trim();
    let mut args = step["args"].as_object()?.clone();
    for value in args.values_mut().filter(|value| *value == "<DYNAMIC>") {
        *value = format!("Dear customer, this is what we know: {known}.").into();
    }
    let tool = step["tool"].as_str()?;
    Some(format!("Thought: {}\nAction: {tool}\nArgs: {}", step["description"].as_str()?, Value::Object(args)))
}

fn answer(about: &Value) -> Option<String> {
    let trace = about["trace"].as_array()?;
    let found = trace.iter().find(|step| step["tool"] == "desk:track_parcel")?;
    Some(format!("The customer was told: {}.", found["returned"].as_str()?.trim()))
}
