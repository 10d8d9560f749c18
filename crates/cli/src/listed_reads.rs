//! Entries of a registry for what a server lets its clients read: resources, prompts and completions.

use std::collections::BTreeSet;

use countersign_canonical_json::{Canonical, ValueRef};
use countersign_host::server::Client;
use serde_json::{Value, json};

use crate::failure::{Failure, one_line};
use crate::output::note;

/// Most resources, templates or prompts of a draft. Each is a line that a person reads.
const MAX_ITEMS: usize = 500;
/// Longest name of a prompt in the name of its entry, in bytes. The registry's limit for a whole name is 128.
const MAX_PROMPT_NAME: usize = 100;
/// Method of MCP that reads a resource.
const READ: &str = "resources/read";
/// Method of MCP that gets a prompt.
const GET: &str = "prompts/get";
/// Method of MCP that completes an argument.
const COMPLETE: &str = "completion/complete";

/// What a server lists besides tools.
#[derive(Debug, Default)]
pub(crate) struct ListedReads {
    /// URIs of resources.
    resources: Vec<String>,
    /// URI templates (RFC 6570).
    templates: Vec<String>,
    prompts: Vec<ListedPrompt>,
    completes: bool,
}

#[derive(Debug)]
struct ListedPrompt {
    name: String,
    description: String,
    /// Names of its arguments, and whether each is required.
    arguments: Vec<(String, bool)>,
}

impl ListedReads {
    /// Asks the server for the lists that it has by the capabilities in its answer to `initialize`.
    pub(crate) fn list(client: &mut Client, hello: ValueRef<'_>) -> Result<Self, Failure> {
        let has = |capability: &str| {
            hello.pointer("/result/capabilities").is_some_and(|all| all.get(capability).is_some())
        };
        let mut listed = Self { completes: has("completions"), ..Self::default() };
        if has("resources") {
            listed.resources = texts(&pages(client, "resources/list")?, "resources", "uri");
            let templates = pages(client, "resources/templates/list")?;
            listed.templates = texts(&templates, "resourceTemplates", "uriTemplate");
        }
        if has("prompts") {
            listed.prompts = items(&pages(client, "prompts/list")?, "prompts", ListedPrompt::read);
            // why: a name that is listed twice is one prompt to a client.
            let mut seen = BTreeSet::new();
            listed.prompts.retain(|prompt| seen.insert(prompt.name.clone()));
        }
        Ok(listed)
    }

    /// The entries, without their server.
    pub(crate) fn entries(&self) -> Vec<Value> {
        let mut entries = Vec::new();
        if !self.resources.is_empty() {
            let text = format!("{} resources", self.resources.len());
            entries.push(entry(READ, &text, &uri(&json!({ "enum": self.resources })), &json!([])));
        }
        let roots = self.roots();
        if !roots.is_empty() {
            let about = format!("Resources of the templates {}", self.templates.join(", "));
            let within = json!([{ "kind": "uri_within", "at": "/uri", "roots": roots }]);
            let name = format!("{READ}/templates");
            entries.push(entry(&name, &one_line(&about), &uri(&json!({ "type": "string" })), &within));
        }
        entries.extend(self.prompts.iter().enumerate().map(|(at, prompt)| prompt.entry(at)));
        if let Some(schema) = self.completion() {
            entries.push(entry(
                COMPLETE,
                "Completes arguments of the prompts and templates above",
                &schema,
                &json!([]),
            ));
        }
        entries
    }

    /// The beginnings of the templates, to the last slash before their first expression.
    fn roots(&self) -> Vec<String> {
        let mut roots = Vec::new();
        for template in &self.templates {
            let literal = template.split('{').next().unwrap_or_default();
            match literal.rfind('/').and_then(|at| literal.get(..=at)) {
                Some(root) if root.contains("://") => roots.push(root.to_owned()),
                Some(_) | None => note(&format!(
                    "warning SERVER_ANSWER: the template `{}` is left out: it begins with an expression",
                    one_line(template)
                )),
            }
        }
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// The schema of a completion: of the listed prompts and templates.
    fn completion(&self) -> Option<Value> {
        let of = |kind: &str, member: &str, names: Vec<&String>| {
            (!names.is_empty()).then(|| {
                object(
                    &["type", member],
                    &json!({ "type": { "const": kind }, member: { "enum": names }, "title": { "type": "string" } }),
                )
            })
        };
        let prompts = of("ref/prompt", "name", self.prompts.iter().map(|prompt| &prompt.name).collect());
        let templates = of("ref/resource", "uri", self.templates.iter().collect());
        let references: Vec<_> = prompts.into_iter().chain(templates).collect();
        let text = json!({ "type": "string" });
        let argument = object(&["name", "value"], &json!({ "name": text, "value": text }));
        let known = json!({ "type": "object", "additionalProperties": text });
        let context = object(&[], &json!({ "arguments": known }));
        let properties = json!({ "ref": { "anyOf": references }, "argument": argument, "context": context });
        (self.completes && !references.is_empty()).then(|| object(&["ref", "argument"], &properties))
    }
}

impl ListedPrompt {
    fn read(prompt: ValueRef<'_>) -> Option<Self> {
        let argument = |argument: ValueRef<'_>| {
            let is_required = argument.get("required").and_then(ValueRef::as_bool) == Some(true);
            Some((argument.get("name")?.as_str()?.to_owned(), is_required))
        };
        let description = prompt.get("description").and_then(ValueRef::as_str).unwrap_or_default();
        Some(Self {
            name: prompt.get("name")?.as_str()?.to_owned(),
            description: one_line(description),
            arguments: prompt
                .get("arguments")
                .into_iter()
                .flat_map(ValueRef::elements)
                .filter_map(argument)
                .collect(),
        })
    }

    /// The entry of the prompt, which is the server's number `at`.
    fn entry(&self, at: usize) -> Value {
        let is_word = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        };
        let word = if is_word(&self.name) && self.name.len() <= MAX_PROMPT_NAME {
            self.name.clone()
        } else {
            // No name of a prompt that is a word of its own begins with a slash.
            format!("/{}", at.saturating_add(1))
        };
        let text = json!({ "type": "string" });
        let named = self.arguments.iter().map(|(name, _)| (name.clone(), text.clone()));
        let required: Vec<_> =
            self.arguments.iter().filter(|(_, is_required)| *is_required).map(|(name, _)| &**name).collect();
        let arguments = object(&required, &Value::Object(named.collect()));
        let members: &[&str] = if required.is_empty() { &["name"] } else { &["name", "arguments"] };
        let schema = object(members, &json!({ "name": { "const": self.name }, "arguments": arguments }));
        entry(&format!("{GET}/{word}"), &self.description, &schema, &json!([]))
    }
}

fn entry(name: &str, about: &str, schema: &Value, constraints: &Value) -> Value {
    json!({
        "name": name,
        "impact": "read",
        "approval": "not_required",
        "as_listed": { "description": about },
        "args_schema": schema,
        "constraints": constraints,
    })
}

fn uri(schema: &Value) -> Value {
    object(&["uri"], &json!({ "uri": schema }))
}

fn object(required: &[&str], properties: &Value) -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": required, "properties": properties,
    })
}

/// All pages of a list. A server that has none of it may refuse the method.
fn pages(client: &mut Client, method: &str) -> Result<Vec<Canonical>, Failure> {
    match client.list(method) {
        Ok(pages) => Ok(pages),
        Err(error) if error.code() == "SERVER_ANSWER" => {
            note(&format!("warning SERVER_ANSWER: `{method}` is left out: {}", error.line()));
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}

fn texts(pages: &[Canonical], list: &str, member: &str) -> Vec<String> {
    let mut texts = items(pages, list, |item| item.get(member)?.as_str().map(str::to_owned));
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// Reads the items of a list, [`MAX_ITEMS`] at most.
fn items<T>(pages: &[Canonical], list: &str, read: impl Fn(ValueRef<'_>) -> Option<T>) -> Vec<T> {
    let listed = pages.iter().filter_map(|page| page.value().get("result")?.get(list));
    let mut items: Vec<T> = listed.flat_map(ValueRef::elements).filter_map(read).collect();
    if items.len() > MAX_ITEMS {
        note(&format!(
            "warning SERVER_ANSWER: of {} `{list}`, the first {MAX_ITEMS} are drafted",
            items.len()
        ));
        items.truncate(MAX_ITEMS);
    }
    items
}
