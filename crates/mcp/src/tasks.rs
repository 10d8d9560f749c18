//! Tasks: a server of the stateless era may promise the result of a call, and give it later.
//!
//! A promise counts for a tool whose registry entry allows tasks, and a client that declared the extension in its call. The task
//! then belongs to the call that the gate accepted: its result is the call's outcome, and no other session can name it.
//!
//! Source: SEP-2663, extension `io.modelcontextprotocol/tasks`.

use std::collections::BTreeMap;

use countersign_canonical_json::{Kind, ValueRef};
use countersign_tool_gate::InFlight;
use parking_lot::Mutex;

use crate::era_2025::META;
use crate::era_2026::{self, INPUT_REQUESTS, INPUT_RESPONSES, UPDATE_TASK};

/// Most open tasks of a session.
const MAX_OPEN: usize = 1_024;
/// Longest id of a task, in bytes.
const MAX_ID: usize = 256;
pub(crate) const TASK_ID: &str = "taskId";

/// A request about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskMethod {
    Get,
    Update,
    Cancel,
}

/// The open tasks of a session, by the ids that the server gave them.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    open: Mutex<BTreeMap<String, InFlight>>,
}

/// The state of a task in a server's answer.
#[derive(Debug)]
pub(crate) enum TaskState<'a> {
    Working,
    /// The server asks for input.
    Asks(ValueRef<'a>),
    /// The result of the call.
    Completed(ValueRef<'a>),
    /// The call failed with an error.
    Failed,
    /// The client cancelled it. Whether the call ran is unknown.
    Cancelled,
}

impl TaskMethod {
    pub(crate) fn of(method: &str) -> Option<Self> {
        [Self::Get, Self::Update, Self::Cancel].into_iter().find(|it| it.as_str() == method)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "tasks/get",
            Self::Update => UPDATE_TASK,
            Self::Cancel => "tasks/cancel",
        }
    }

    /// The task that a request names; `None` if its params have another shape.
    pub(crate) fn task(self, params: Option<ValueRef<'_>>) -> Option<&str> {
        let params = params?;
        let is_known = |(name, value): (&str, ValueRef<'_>)| match name {
            TASK_ID | META => true,
            INPUT_RESPONSES => self == Self::Update && value.kind() == Kind::Object,
            _ => false,
        };
        params.get(TASK_ID)?.as_str().filter(|_| params.members().all(is_known))
    }
}

impl Tasks {
    /// Keeps the call that a server promises the result of. Drops it, which records its outcome as unknown, and returns `false`
    /// if there are too many, or one of this id.
    pub(crate) fn add(&self, task: &str, call: InFlight) -> bool {
        let mut open = self.open.lock();
        if open.len() >= MAX_OPEN || open.contains_key(task) {
            drop(open);
            drop(call);
            return false;
        }
        open.insert(task.to_owned(), call);
        true
    }

    pub(crate) fn has(&self, task: &str) -> bool {
        self.open.lock().contains_key(task)
    }

    /// Takes the call of a task that has ended.
    pub(crate) fn take(&self, task: &str) -> Option<InFlight> {
        self.open.lock().remove(task)
    }

    /// Ends the session. The outcomes of calls that are still promised are recorded as unknown.
    pub(crate) fn end(&self) {
        let open = std::mem::take(&mut *self.open.lock());
        drop(open);
    }
}

/// Returns the id of the task that a result of a call promises.
pub(crate) fn promised(result: ValueRef<'_>) -> Option<&str> {
    let is_task = result.get("resultType").and_then(ValueRef::as_str) == Some("task");
    let has_more =
        [INPUT_REQUESTS, "content", "structuredContent", "result"].iter().any(|it| result.get(it).is_some());
    let task = result.get(TASK_ID).filter(|_| is_task && !has_more)?.as_str()?;
    (!task.is_empty() && task.len() <= MAX_ID).then_some(task)
}

/// Reads the state of a task in the answer to `tasks/get`; `None` if it is that of no task or of another one.
pub(crate) fn state_of<'a>(task: &str, result: ValueRef<'a>) -> Option<TaskState<'a>> {
    let is_complete = |kind: ValueRef<'_>| kind.as_str() == Some("complete");
    if result.get(TASK_ID)?.as_str()? != task || !result.get("resultType").is_none_or(is_complete) {
        return None;
    }
    let asks = result.get(INPUT_REQUESTS);
    match result.get("status")?.as_str()? {
        "input_required" => Some(TaskState::Asks(asks?)),
        _ if asks.is_some() => None,
        "working" => Some(TaskState::Working),
        "completed" => {
            let done = result.get("result")?;
            let is_final =
                done.kind() == Kind::Object && !era_2026::is_unfinished(done) && done.get(TASK_ID).is_none();
            is_final.then_some(TaskState::Completed(done))
        }
        "failed" => Some(TaskState::Failed),
        "cancelled" => Some(TaskState::Cancelled),
        _ => None,
    }
}
