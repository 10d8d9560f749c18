use std::path::Path;

use countersign::core::{Digest, ImpactClass, Millis, Timestamp};
use countersign::keys::trusted::write_public;
use countersign::keys::{SigningKey, TrustRoot};
use countersign::registry::RegistryDraft;
use serde_json::{Value, json};

/// One tool of a [`TestRegistry`]: any object as arguments, and no approval unless the impact is money, privacy or
/// irreversible.
///
/// ```
/// use countersign_testing::{TestRegistry, TestTool};
/// use serde_json::json;
///
/// let mail = TestTool::of("post", "mail", "external")
///     .args_schema(&json!({"type": "object", "required": ["to"]}))
///     .constraint(json!({"kind": "email_domain", "at": "/to", "domains": ["customers.example"]}));
/// assert_eq!(TestRegistry::of([mail]).draft()["tools"][0]["name"], "mail");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TestTool(Value);

impl TestTool {
    /// Tool of any server and impact class.
    pub fn of(server: &str, name: &str, impact: &str) -> Self {
        let class: ImpactClass = serde_json::from_value(json!(impact)).expect("the name of an impact class");
        let is_high = matches!(class, ImpactClass::Money | ImpactClass::Privacy | ImpactClass::Irreversible);
        let approval = if is_high { "required" } else { "not_required" };
        Self(json!({
            "server": server, "name": name, "impact": impact, "approval": approval,
            "args_schema": { "type": "object" },
        }))
    }

    /// Tool of the server `desk` that reads.
    pub fn read(name: &str) -> Self {
        Self::of("desk", name, "read")
    }

    /// Tool of the server `desk` that writes.
    pub fn write(name: &str) -> Self {
        Self::of("desk", name, "write")
    }

    /// Tool of the server `desk` that spends money, after an approval.
    pub fn money(name: &str) -> Self {
        Self::of("desk", name, "money")
    }

    /// Sets a member of the tool's entry, such as `approval`, `ask`, `plan`, `evidence` or `limits`.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0[name] = value.into();
        self
    }

    /// Sets the JSON Schema of the arguments.
    pub fn args_schema(self, schema: &Value) -> Self {
        self.member("args_schema", schema.clone())
    }

    /// Adds a constraint on the arguments.
    pub fn constraint(mut self, constraint: Value) -> Self {
        if let Some(all) = self.0.get_mut("constraints").and_then(Value::as_array_mut) {
            all.push(constraint);
            return self;
        }
        self.member("constraints", json!([constraint]))
    }

    /// Pins the definition.
    pub fn definition(self, definition: &Digest) -> Self {
        self.member("definition", json!(definition))
    }
}

/// A registry for tests: version 1, the agent `support-bot` with all tools, signed by [`TestRegistry::operator`].
///
/// ```
/// use countersign_testing::{TestRegistry, TestTool, World};
///
/// let registry = TestRegistry::of([TestTool::read("search")]).version(2).revoke("support-bot");
/// let signed: Vec<u8> = registry.sign(World::start());
/// assert!(signed.starts_with(b"{"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TestRegistry(Value);

impl TestRegistry {
    /// Registry of these tools. The agent `support-bot` has them all, for sessions of one hour.
    pub fn of(tools: impl IntoIterator<Item = TestTool>) -> Self {
        let tools: Vec<Value> = tools.into_iter().map(|tool| tool.0).collect();
        let all = tools.iter().map(|tool| json!({ "server": tool["server"], "name": tool["name"] }));
        let agent = json!({
            "agent": "support-bot", "version": 1, "registered_by": "ops", "max_session": "1h",
            "tools": all.collect::<Vec<_>>(), "output_tags": [],
        });
        Self(json!({
            "format": "countersign-registry-1", "version": 1, "agents": [agent], "tools": tools,
            "revoked": { "agents": [], "keys": [], "snapshots": [] },
        }))
    }

    /// Registry of a support desk: `search` reads, `note` writes under a stated goal, `mail` reaches addresses of
    /// `customers.example`, `refund` pays after an approval.
    pub fn desk() -> Self {
        let object = |properties: Value, required: Value| {
            json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            })
        };
        let text = json!({ "type": "string" });
        let domain = json!({ "kind": "email_domain", "at": "/to", "domains": ["customers.example"] });
        Self::of([
            TestTool::read("search").args_schema(&object(json!({ "query": text }), json!([]))),
            TestTool::write("note")
                .member("ask", "required")
                .args_schema(&object(json!({ "text": text }), json!(["text"]))),
            TestTool::of("desk", "mail", "external")
                .args_schema(&object(json!({ "to": text, "body": text }), json!(["to"])))
                .constraint(domain),
            TestTool::money("refund").args_schema(&object(
                json!({ "ticket": text, "amount": { "type": "number" } }),
                json!(["ticket", "amount"]),
            )),
        ])
    }

    /// Registry of a draft that a test wrote itself.
    pub fn from_json(draft: &str) -> Self {
        Self(serde_json::from_str(draft).expect("a draft in JSON"))
    }

    /// Sets the version.
    pub fn version(self, version: u64) -> Self {
        self.edit(|draft| draft["version"] = json!(version))
    }

    /// Revokes an agent.
    pub fn revoke(self, agent: &str) -> Self {
        self.edit(|draft| {
            draft["revoked"]["agents"].as_array_mut().expect("a list").push(json!(agent));
        })
    }

    /// Adds a tool, for every agent.
    pub fn tool(self, tool: TestTool) -> Self {
        self.edit(|draft| {
            let id = json!({ "server": tool.0["server"], "name": tool.0["name"] });
            for agent in draft["agents"].as_array_mut().expect("a list") {
                agent["tools"].as_array_mut().expect("a list").push(id.clone());
            }
            draft["tools"].as_array_mut().expect("a list").push(tool.0);
        })
    }

    /// Adds an agent with tools of the server `desk`.
    pub fn agent<'a>(self, agent: &str, tools: impl IntoIterator<Item = &'a str>) -> Self {
        let tools = tools.into_iter().map(|name| json!({ "server": "desk", "name": name }));
        let agent = json!({
            "agent": agent, "version": 1, "registered_by": "ops", "max_session": "1h",
            "tools": tools.collect::<Vec<_>>(), "output_tags": [],
        });
        self.edit(|draft| draft["agents"].as_array_mut().expect("a list").push(agent))
    }

    /// Changes the draft in any way.
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.0);
        self
    }

    /// The draft as it is signed.
    #[must_use]
    pub const fn draft(&self) -> &Value {
        &self.0
    }

    /// Signs the draft, for one day from `issued`.
    #[must_use]
    pub fn sign(&self, issued: Timestamp) -> Vec<u8> {
        self.sign_for(issued, Millis::from_secs(86_400))
    }

    /// Signs the draft, for `ttl` from `issued`.
    #[must_use]
    pub fn sign_for(&self, issued: Timestamp, ttl: Millis) -> Vec<u8> {
        let draft = RegistryDraft::from_json(self.0.to_string().as_bytes()).expect("a valid draft");
        let expires = issued.checked_add(ttl).expect("a time in range");
        let signed = draft.sign(issued, expires, &[&Self::operator()]).expect("one signature");
        signed.to_json().into_bytes()
    }

    /// Writes the signed registry to `registry.json` and its trust root to `root.json`, as only their owner may write
    /// them.
    pub fn write(&self, folder: &Path, issued: Timestamp) {
        let root = Self::trust_root().to_json();
        write_public(&folder.join("root.json"), root.as_bytes()).expect("a writable folder");
        write_public(&folder.join("registry.json"), &self.sign(issued)).expect("a writable folder");
    }

    /// The operator's key. Its seed is public.
    #[must_use]
    pub fn operator() -> SigningKey {
        SigningKey::from_seed([7; 32])
    }

    /// The trust root: the operator's key alone.
    #[must_use]
    pub fn trust_root() -> TrustRoot {
        TrustRoot::new(1, 1, [Self::operator().verifying_key()]).expect("one key of one")
    }

    /// The name of the first agent.
    pub(crate) fn first_agent(&self) -> &str {
        self.0["agents"][0]["agent"].as_str().expect("an agent")
    }
}
