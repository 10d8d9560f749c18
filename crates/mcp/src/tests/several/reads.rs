//! Reads of several servers.

use serde_json::json;

use super::hall::{Answers, Hall, answer_to, server};

/// A server with a resource, a template and a prompt.
fn reader(name: &str, root: &str) -> Answers {
    let (mut usual, root, name) = (server(name, &["read"]), root.to_owned(), name.to_owned());
    Box::new(move |asked| {
        let result = match asked["method"].as_str() {
            Some("resources/list") => json!({ "resources": [{ "uri": format!("{root}a"), "name": "a" }] }),
            Some("resources/templates/list") => {
                json!({ "resourceTemplates": [{ "uriTemplate": format!("{root}{{x}}"), "name": "t" }] })
            }
            Some("prompts/list") => json!({ "prompts": [{ "name": "sum \"up\"" }, { "name": "b" }] }),
            Some("resources/read") => {
                json!({ "contents": [{ "uri": asked["params"]["uri"], "text": name }] })
            }
            Some("prompts/get" | "completion/complete") => json!({ "messages": [name, asked["params"]] }),
            _ => return usual(asked),
        };
        vec![answer_to(asked, result)]
    })
}

fn hall() -> Hall {
    Hall::open(reader("files", "file:///"), reader("web", "https://docs.example/"))
}

#[test]
fn lists_of_all_servers_are_one() {
    let mut hall = hall();
    let listed = hall.ask(1, "resources/list", &json!({}));
    let uris = [&listed["result"]["resources"][0]["uri"], &listed["result"]["resources"][1]["uri"]];
    assert_eq!(uris, ["file:///a", "https://docs.example/a"]);
    let listed = hall.ask(2, "resources/templates/list", &json!({}));
    assert_eq!(listed["result"]["resourceTemplates"].as_array().unwrap().len(), 2, "{listed}");
    let listed = hall.ask(3, "prompts/list", &json!({}));
    let names = listed["result"]["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["name"]);
    let expected = ["files__sum \"up\"", "files__b", "web__sum \"up\"", "web__b"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert_eq!(listed["result"]["cacheScope"], "private");
}

#[test]
fn a_read_reaches_the_server_whose_entry_allows_it() {
    let mut hall = hall();
    let read = hall.ask(1, "resources/read", &json!({ "uri": "https://docs.example/x" }));
    assert_eq!(read["result"]["contents"][0]["text"], "web");
    let read = hall.ask(2, "resources/read", &json!({ "uri": "file:///x" }));
    assert_eq!(read["result"]["contents"][0]["text"], "files");
    let refused = hall.ask(3, "resources/read", &json!({ "uri": "https://other.example/x" }));
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(403)));
    let expected =
        ["web:resources/read ACCEPT", "files:resources/read ACCEPT", "files:resources/read ARGS_CONSTRAINT"];
    assert_eq!(hall.decisions(), expected);
}

#[test]
fn a_prompt_is_read_under_its_servers_name() {
    let mut hall = hall();
    let prompt =
        hall.ask(1, "prompts/get", &json!({ "name": "web__sum \"up\"", "arguments": { "of": "x" } }));
    let expected = json!(["web", { "name": "sum \"up\"", "arguments": { "of": "x" } }]);
    assert_eq!(prompt["result"]["messages"], expected);
    let reference = json!({ "type": "ref/prompt", "name": "web__b" });
    let params = json!({ "ref": reference, "argument": { "name": "of", "value": "" } });
    let completed = hall.ask(2, "completion/complete", &params);
    assert_eq!(completed["result"]["messages"][1]["ref"]["name"], "b", "{completed}");
    for name in ["b", "other__b", ""] {
        let refused = hall.ask(3, "prompts/get", &json!({ "name": name }));
        assert_eq!(refused["error"]["data"]["code"], "BAD_PARAMS", "{name}: {refused}");
    }
    assert_eq!(hall.decisions(), ["web:prompts/get ACCEPT", "web:completion/complete ACCEPT"]);
}

#[test]
fn a_server_that_lists_nothing_is_left_out() {
    let mut hall = Hall::open(reader("files", "file:///"), server("web", &["read"]));
    let listed = hall.ask(1, "prompts/list", &json!({}));
    assert_eq!(listed["result"]["prompts"].as_array().unwrap().len(), 2, "{listed}");
}
