//! One answer out of the answers of several servers.

use std::collections::BTreeMap;

use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, ValueRef, read};

use super::table::{AnswerPart, RequestKind, SharedRequest};
use crate::compose::{Object, json_string};
use crate::cut::{Edits, ValuePosition};
use crate::era_2025;
use crate::era_2026;
use crate::fault::Fault;
use crate::message::{RpcId, error_line};

/// The result of one server.
struct GivenResult<'a> {
    server: &'a str,
    line: &'a [u8],
    message: Canonical,
}

impl GivenResult<'_> {
    fn result(&self) -> Option<ValueRef<'_>> {
        self.message.value().get("result")
    }

    fn member(&self, name: &str) -> Option<ValueRef<'_>> {
        self.result()?.get(name)
    }
}

/// Builds the answer to the client. Errors count only if there is no result.
pub(super) fn merged(id: &RpcId, request: &SharedRequest, servers: &[&str]) -> Vec<u8> {
    let given = request.parts.iter().zip(servers).filter_map(|(part, server)| match part {
        AnswerPart::Given { line, is_result } => Some((*server, line, *is_result)),
        AnswerPart::Absent | AnswerPart::Awaited => None,
    });
    let given: Vec<_> = given.collect();
    if request.kind == RequestKind::Discover
        && let Some((_, line, _)) = given.iter().find(|(_, line, is_result)| !is_result && refuses_era(line))
    {
        return line.to_vec();
    }
    let results = given.iter().filter(|(_, _, is_result)| *is_result).filter_map(|(server, line, _)| {
        let message = read(line, Recipe::Rfc8785, &Limits::hard_caps()).ok()?;
        Some(GivenResult { server, line, message })
    });
    let results: Vec<_> = results.collect();
    let Some(first) = results.first() else {
        let error = || error_line(Some(id), Fault::ServerEnded).into_bytes();
        return given.first().map_or_else(error, |(_, line, _)| line.to_vec());
    };
    match request.kind {
        RequestKind::Initialize | RequestKind::Discover => hello(first, &results),
        RequestKind::List(member) => list(first, &results, member),
        RequestKind::Single
        | RequestKind::Joining
        | RequestKind::Any
        | RequestKind::Listen(_)
        | RequestKind::Alike => first.line.to_vec(),
    }
}

/// Returns whether a gateway speaks no stateless era. A client of both then falls back for all servers.
fn refuses_era(line: &[u8]) -> bool {
    let message = read(line, Recipe::Rfc8785, &Limits::hard_caps());
    message.is_ok_and(|message| message.value().get("error").is_some_and(era_2026::may_be_modern))
}

/// Merges what servers say of themselves: the oldest revision, all capabilities, all instructions.
fn hello(first: &GivenResult<'_>, results: &[GivenResult<'_>]) -> Vec<u8> {
    let (mut edits, place) = (Edits::new(first.line), ValuePosition::new(first.line));
    let Some(result) = place.get("result") else { return first.line.to_vec() };
    let versions = results.iter().filter_map(|it| it.member("protocolVersion")?.as_str());
    if let (Some(oldest), Some(old)) = (versions.min(), result.get("protocolVersion")) {
        edits.replace(&old, json_string(oldest));
    }
    if let Some(old) = result.get("capabilities") {
        let all: Vec<_> = results.iter().filter_map(|it| it.member("capabilities")).collect();
        edits.replace(&old, union(&all));
    }
    let info =
        Object::new().string("name", "countersign").string("version", env!("CARGO_PKG_VERSION")).finish();
    for path in [["serverInfo"].as_slice(), &[era_2026::META, era_2026::SERVER]] {
        if let Some(old) = result.find(path) {
            edits.replace(&old, info.clone());
        }
    }
    let said = results.iter().filter_map(|it| {
        let text = era_2025::instructions_of(it.result()?)?.as_str()?;
        Some(format!("{}:\n{text}", it.server))
    });
    let said: Vec<_> = said.collect();
    era_2025::cut_instructions(&mut edits, &place);
    if !said.is_empty() {
        return with_member(&edits.finish(), "instructions", &json_string(&said.join("\n\n")));
    }
    edits.finish()
}

/// Merges the pages of several lists. The items stay as their gateways wrote them.
fn list(first: &GivenResult<'_>, results: &[GivenResult<'_>], member: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for it in results {
        let place = ValuePosition::new(it.line);
        let count = it.member(member).map_or(0, ValueRef::len);
        if let Some(items) = place.find(&["result", member]) {
            all.extend((0..count).filter_map(|at| Some(items.element(at)?.bytes().to_vec())));
        }
    }
    let next = results.iter().filter_map(|it| Some((it.server, it.member("nextCursor")?.as_str()?)));
    let next = next.fold(None, |next: Option<Object>, (server, cursor)| {
        Some(next.unwrap_or_else(Object::new).string(server, cursor))
    });
    let (mut edits, place) = (Edits::new(first.line), ValuePosition::new(first.line));
    let Some(result) = place.get("result") else { return first.line.to_vec() };
    if let Some(items) = result.get(member) {
        edits.replace(&items, [b"[", all.join(&b","[..]).as_slice(), b"]"].concat());
    }
    edits.cut_members(&result, |name| name == "nextCursor");
    let line = edits.finish();
    match next {
        Some(next) => with_member(&line, "nextCursor", &json_string(&next.finish())),
        None => line,
    }
}

/// Reads a cursor of a merged list: the servers that have more items, each with its own cursor as JSON.
pub(super) fn cursors(cursor: &str, servers: &[&str]) -> Option<Vec<(usize, String)>> {
    let read = read(cursor.as_bytes(), Recipe::Jcs1, &Limits::default()).ok()?;
    let own = |(name, cursor): (&str, ValueRef<'_>)| {
        let at = servers.iter().position(|server| *server == name)?;
        Some((at, json_string(cursor.as_str()?)))
    };
    if read.value().kind() == Kind::Object { read.value().members().map(own).collect() } else { None }
}

/// The union of objects: of two values of one name, the object or `true`, or else the first.
fn union(values: &[ValueRef<'_>]) -> String {
    let mut members: BTreeMap<&str, Vec<ValueRef<'_>>> = BTreeMap::new();
    for (name, value) in values.iter().flat_map(|value| value.members()) {
        members.entry(name).or_default().push(value);
    }
    let merged = members.into_iter().fold(Object::new(), |merged, (name, values)| {
        let objects: Vec<_> = values.iter().copied().filter(|value| value.kind() == Kind::Object).collect();
        let is_true = values.iter().any(|value| value.as_bool() == Some(true));
        match values.first() {
            _ if !objects.is_empty() => merged.raw(name, &union(&objects)),
            Some(first) if !is_true => merged.value(name, *first),
            Some(_) | None => merged.raw(name, "true"),
        }
    });
    merged.finish()
}

/// Adds a member to the result in a line.
fn with_member(line: &[u8], name: &str, json: &str) -> Vec<u8> {
    let (mut edits, place) = (Edits::new(line), ValuePosition::new(line));
    if let Some(result) = place.get("result") {
        edits.add_member(&result, name, json);
    }
    edits.finish()
}
