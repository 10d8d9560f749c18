mod library;
#[cfg(unix)]
mod processes;

pub use library::LibrarySurface;
#[cfg(unix)]
pub use processes::{CommandLineSurface, GatewaySurface};

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::{Value, json};

use crate::TestRegistry;

/// A way to have calls decided: the library, the command line, the gateway, a binding.
///
/// The same vectors run on every surface. Implement it for a surface of your own, and call
/// [`run_on`](GateVector::run_on).
pub trait Surface: Sync {
    /// Name by which a vector excludes this surface: `library`, `command-line` or `gateway`.
    fn name(&self) -> &str;

    /// Opens a session of the vector's registry and plays its events. Returns the decision on each call: the code if it
    /// is refused.
    fn decide(&self, vector: &GateVector) -> Vec<Result<(), String>>;
}

/// One session as data: a registry, calls, and the expected decision on each call. `tests/vectors/README.md` describes
/// the members.
///
/// ```
/// use countersign_testing::{GateVector, LibrarySurface, TestRegistry, TestTool};
/// use serde_json::json;
///
/// let vector = GateVector::of("unknown_tool", &json!({
///     "registry": TestRegistry::of([TestTool::read("search")]).draft(),
///     "events": [{ "do": "call", "tool": "delete", "args": {}, "expect": "UNDISCLOSED_TOOL" }],
/// }));
/// assert!(vector.run_on(&LibrarySurface));
/// ```
#[derive(Clone, Debug)]
pub struct GateVector {
    name: String,
    value: Value,
}

/// One call of a [`GateVector`].
#[derive(Clone, Debug)]
pub(crate) struct VectorCall<'a> {
    pub(crate) id: String,
    pub(crate) server: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) args: String,
    pub(crate) ask: Option<&'a str>,
    /// Whether the call is approved after it was refused for lack of an approval.
    pub(crate) is_approved: bool,
}

/// One event of a [`GateVector`].
pub(crate) enum VectorEvent<'a> {
    Call(VectorCall<'a>),
    /// The operator publishes another registry.
    Publish(TestRegistry),
    /// Milliseconds pass.
    Wait(u64),
}

impl GateVector {
    /// Vector of a JSON value.
    #[must_use]
    pub fn of(name: &str, value: &Value) -> Self {
        Self { name: name.to_owned(), value: value.clone() }
    }

    /// Reads all vectors in the folders `accept` and `reject` below `folder`, by name.
    #[must_use]
    pub fn read_all(folder: &Path) -> Vec<Self> {
        let mut vectors = Vec::new();
        for kind in ["accept", "reject"] {
            for entry in fs::read_dir(folder.join(kind)).expect("a folder of vectors") {
                let path = entry.expect("a folder of vectors").path();
                let text = fs::read(&path).expect("a readable vector");
                let value = serde_json::from_slice(&text).expect("a vector in JSON");
                let file = path.file_stem().expect("a file's name").to_string_lossy();
                vectors.push(Self { name: format!("{kind}/{file}"), value });
            }
        }
        vectors.sort_by(|one, other| one.name.cmp(&other.name));
        vectors
    }

    /// Name of the vector.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The vector as JSON.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// Expected decision on each call: the code if it is refused.
    #[must_use]
    pub fn expected(&self) -> Vec<Result<(), String>> {
        let calls = self.events_as_json().iter().filter(|event| event["do"] == "call");
        let expected = calls.map(|call| match call["expect"].as_str().expect("an expected decision") {
            "accept" => Ok(()),
            code => Err(code.to_owned()),
        });
        expected.collect()
    }

    /// Returns why the surface of this name cannot play the vector.
    #[must_use]
    pub fn left_out(&self, surface: &str) -> Option<&str> {
        self.value.get("left_out")?.get(surface)?.as_str()
    }

    /// Plays the vector on a surface and compares the decisions. Returns `false` if the vector leaves the surface out.
    pub fn run_on(&self, surface: &dyn Surface) -> bool {
        let is_played = self.left_out(surface.name()).is_none();
        assert_eq!(self.difference_on(surface), None);
        is_played
    }

    /// Plays all vectors on a surface, and panics with a list of those that differ. Returns how many were played.
    pub fn run_all_on(surface: &dyn Surface, vectors: &[Self]) -> usize {
        // Processes wait for each other more than they compute.
        let quarter = vectors.len().div_ceil(4).max(1);
        let differences: Vec<String> = thread::scope(|scope| {
            let play = |part: &[Self]| -> Vec<_> {
                part.iter().filter_map(|vector| vector.difference_on(surface)).collect()
            };
            let parts: Vec<_> = vectors.chunks(quarter).map(|part| scope.spawn(move || play(part))).collect();
            parts.into_iter().flat_map(|part| part.join().expect("a surface that decides")).collect()
        });
        assert!(differences.is_empty(), "{}", differences.join("\n"));
        vectors.iter().filter(|vector| vector.left_out(surface.name()).is_none()).count()
    }

    /// Returns how the surface decides otherwise than expected.
    fn difference_on(&self, surface: &dyn Surface) -> Option<String> {
        if self.left_out(surface.name()).is_some() {
            return None;
        }
        let (decided, expected) = (surface.decide(self), self.expected());
        let differs = decided != expected;
        differs.then(|| format!("{} on {}: {decided:?}, expected {expected:?}", self.name, surface.name()))
    }

    pub(crate) fn registry(&self) -> TestRegistry {
        TestRegistry::from_json(&self.value["registry"].to_string())
    }

    pub(crate) fn goal(&self) -> Option<&str> {
        self.value.get("goal").and_then(Value::as_str)
    }

    /// The definitions that the server `desk` lists.
    pub(crate) fn listed(&self) -> Option<&Vec<Value>> {
        self.value.get("listed").and_then(Value::as_array)
    }

    fn events_as_json(&self) -> &Vec<Value> {
        self.value["events"].as_array().expect("a list of events")
    }

    pub(crate) fn events(&self) -> Vec<VectorEvent<'_>> {
        let events = self.events_as_json().iter().enumerate();
        events.map(|(at, event)| self.event(at, event)).collect()
    }

    fn event<'a>(&self, at: usize, event: &'a Value) -> VectorEvent<'a> {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        match text("do").expect("a kind of event") {
            "call" => VectorEvent::Call(VectorCall {
                id: text("call_id").map_or_else(|| format!("c{}", at.saturating_add(1)), str::to_owned),
                server: text("server").unwrap_or("desk"),
                tool: text("tool").expect("the name of a tool"),
                args: text("args_text").map_or_else(|| event["args"].to_string(), str::to_owned),
                ask: text("ask"),
                is_approved: event.get("approve") == Some(&json!(true)),
            }),
            "publish" => VectorEvent::Publish(TestRegistry::from_json(&event["registry"].to_string())),
            "wait" => VectorEvent::Wait(event["millis"].as_u64().expect("milliseconds")),
            other => unknown(&self.name, other),
        }
    }
}

#[expect(clippy::panic, reason = "a vector that is not known is a fault of the test")]
fn unknown(vector: &str, event: &str) -> ! {
    panic!("{vector}: unknown event `{event}`")
}

#[cfg(unix)]
fn is_missing_approval(decision: &Result<(), String>) -> bool {
    decision.as_ref().is_err_and(|code| code == "APPROVAL_REQUIRED")
}
