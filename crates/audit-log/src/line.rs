//! Record lines, written by hand for the frequent types: `serde_json` takes about as long for one as SHA-256 does.
//!
//! INVARIANT: the bytes equal those of the derived `Serialize`. A test compares the two.

use std::cell::Cell;

use countersign_core::Digest;
use countersign_merkle::LeafHash;

use crate::{
    AuditError, CallRecordRef, OriginRef, OutcomeBy, OutcomeKind, OutcomeRecord, Record, ToolRef, Verdict,
};

/// Initial capacity for a line: most lines are shorter.
pub(crate) const LINE: usize = 768;

/// Most bytes that [`record_prefix`] adds: `{"seq":` and twenty digits.
pub(crate) const MAX_PREFIX: usize = 27;

/// Appends the beginning of a record's line, up to its sequence number.
pub(crate) fn record_prefix(seq: u64, buffer: &mut Vec<u8>) {
    number(buffer, "{\"seq\":", seq);
}

/// A line whose body is written before its sequence number is known.
#[derive(Debug, Default)]
pub(crate) struct LateLine {
    /// The line, behind the room that its prefix leaves.
    bytes: Vec<u8>,
    start: usize,
}

thread_local! {
    /// The line that this thread has written last or that a record replaced, for its buffer.
    static SPARE: Cell<LateLine> = const { Cell::new(LateLine { bytes: Vec::new(), start: 0 }) };
}

impl LateLine {
    /// Takes the spare line of this thread. It is gone if the thread is ending.
    pub(crate) fn take_spare() -> Self {
        SPARE.try_with(Cell::take).unwrap_or_default()
    }

    /// Keeps the line as the spare one of this thread.
    pub(crate) fn keep_spare(self) {
        let _ = SPARE.try_with(|spare| spare.set(self));
    }

    /// Writes the body of a record's line, in place of an earlier line.
    pub(crate) fn write(&mut self, record: &Record) -> Result<(), AuditError> {
        record_body(record, self.clear())
    }

    /// Takes the body of a line, in place of an earlier line.
    pub(crate) fn copy(&mut self, body: &[u8]) {
        self.clear().extend_from_slice(body);
    }

    /// Removes an earlier line and leaves room for the prefix.
    fn clear(&mut self) -> &mut Vec<u8> {
        self.start = 0;
        self.bytes.clear();
        self.bytes.reserve(LINE);
        self.bytes.resize(MAX_PREFIX, 0);
        &mut self.bytes
    }

    /// Returns the line after its number.
    pub(crate) fn body(&self) -> &[u8] {
        self.bytes.get(MAX_PREFIX..).unwrap_or_default()
    }

    /// Puts the beginning of the line before its body.
    pub(crate) fn number(&mut self, seq: u64) -> &mut Self {
        let digits = Digits::of(seq);
        let prefix: [&[u8]; 2] = [b"{\"seq\":", digits.as_bytes()];
        self.start = MAX_PREFIX;
        for part in prefix.into_iter().rev() {
            let end = self.start;
            self.start = end.saturating_sub(part.len());
            if let Some(room) = self.bytes.get_mut(self.start..end) {
                room.copy_from_slice(part);
            }
        }
        self
    }

    /// Hashes the numbered line.
    pub(crate) fn leaf(&self) -> LeafHash {
        LeafHash::of(self.as_bytes())
    }

    /// Returns the numbered line; before it has a number, as many bytes as the longest prefix makes it.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// Appends the rest of a record's line after the sequence number, from the comma on.
pub(crate) fn record_body(record: &Record, buffer: &mut Vec<u8>) -> Result<(), AuditError> {
    match record {
        Record::Decision(call) => decision(buffer, &call.into()),
        Record::Outcome(end) => {
            outcome(buffer, end);
            Ok(())
        }
        Record::Session(_)
        | Record::Gateway(_)
        | Record::Recovered(_)
        | Record::Standing(_)
        | Record::Answer(_)
        | Record::Refused(_)
        | Record::Signal(_)
        | Record::Server(_)
        | Record::Began(_)
        | Record::Archived(_)
        | Record::End(_)
        | Record::Gap(_) => {
            let start = buffer.len();
            json(buffer, record)?;
            // A record is an object: its members follow the sequence number.
            if let Some(brace) = buffer.get_mut(start) {
                *brace = b',';
            }
            Ok(())
        }
    }
}

/// Appends the rest of a decision's line, like [`record_body`].
pub(crate) fn decision(b: &mut Vec<u8>, call: &CallRecordRef<'_>) -> Result<(), AuditError> {
    number(b, ",\"type\":\"decision\",\"time\":", call.time.as_millis());
    origin(b, call.origin);
    text(b, ",\"call_id\":", call.call_id.as_str());
    maybe(b, ",\"request_id\":", call.request_id.map(|id| id.as_str()), text);
    maybe(b, ",\"trace\":", call.trace.map(|trace| trace.as_str()), text);
    tool(b, call.tool);
    maybe(b, ",\"definition\":", call.definition.as_ref(), digest);
    maybe(b, ",\"args\":", call.args.as_ref(), digest);
    maybe(b, ",\"args_recipe\":", call.args_recipe.map(|recipe| recipe.as_str()), text);
    maybe(b, ",\"edited_from\":", call.edited_from, digest);
    if !call.values.is_empty() {
        b.extend_from_slice(b",\"values\":");
        json(b, call.values)?;
    }
    maybe(b, ",\"impact\":", call.impact.map(|impact| impact.as_str()), text);
    b.extend_from_slice(match call.verdict {
        Verdict::Accept => b",\"verdict\":\"accept\"",
        Verdict::Reject => b",\"verdict\":\"reject\"",
    });
    maybe(b, ",\"code\":", call.code.map(|code| code.as_str()), text);
    if call.waits {
        b.extend_from_slice(b",\"waits\":true");
    }
    if let Some(observed) = call.observed {
        b.extend_from_slice(b",\"observed\":");
        json(b, &observed)?;
    }
    maybe(b, ",\"reason\":", call.reason.map(|reason| reason.as_str()), text);
    number(b, ",\"registry_version\":", call.registry_version);
    maybe(b, ",\"ask\":", call.ask.as_ref(), digest);
    maybe(b, ",\"ask_restated\":", call.ask_restated.as_ref(), digest);
    maybe(b, ",\"plan\":", call.plan.as_ref(), digest);
    maybe(b, ",\"plan_step\":", call.plan_step, number);
    if call.about_plan {
        b.extend_from_slice(b",\"about_plan\":true");
    }
    maybe(b, ",\"approval\":", call.approval.map(|id| id.as_str()), text);
    maybe(b, ",\"approver\":", call.approver.map(|id| id.as_str()), text);
    maybe(b, ",\"grant_use\":", call.grant_use.map(u64::from), number);
    if !call.co_approvals.is_empty() {
        b.extend_from_slice(b",\"co_approvals\":");
        json(b, &call.co_approvals)?;
    }
    maybe(b, ",\"denied_by\":", call.denied_by.map(|by| by.as_str()), text);
    if let Some(proposal) = call.proposal {
        b.extend_from_slice(b",\"proposal\":");
        json(b, proposal)?;
    }
    b.push(b'}');
    Ok(())
}

/// Appends session, agent and principal.
pub(crate) fn origin(b: &mut Vec<u8>, origin: OriginRef<'_>) {
    match origin {
        OriginRef::Known(known) => b.extend_from_slice(known.part()),
        OriginRef::Named(session, agent, principal) => {
            text(b, ",\"session\":", session.as_str());
            text(b, ",\"agent\":", agent.as_str());
            text(b, ",\"principal\":", principal.as_str());
        }
    }
}

/// Appends the tool.
pub(crate) fn tool(b: &mut Vec<u8>, tool: ToolRef<'_>) {
    match tool {
        ToolRef::Known(known) => b.extend_from_slice(known.part()),
        ToolRef::Named(server, name) => {
            text(b, ",\"tool\":{\"server\":", server.as_str());
            text(b, ",\"name\":", name.as_str());
            b.push(b'}');
        }
    }
}

/// Appends the rest of an outcome's line, like [`record_body`].
pub(crate) fn outcome(b: &mut Vec<u8>, end: &OutcomeRecord) {
    number(b, ",\"type\":\"outcome\",\"time\":", end.time.as_millis());
    text(b, ",\"session\":", end.session.as_str());
    text(b, ",\"call_id\":", end.call_id.as_str());
    number(b, ",\"decision\":", end.decision);
    b.extend_from_slice(match end.outcome {
        OutcomeKind::Returned => b",\"outcome\":\"returned\"",
        OutcomeKind::Failed => b",\"outcome\":\"failed\"",
        OutcomeKind::Unknown => b",\"outcome\":\"unknown\"",
        OutcomeKind::NotRun => b",\"outcome\":\"not_run\"",
    });
    maybe(b, ",\"duration_ms\":", end.duration_ms.map(|duration| duration.as_millis()), number);
    maybe(b, ",\"code\":", end.code.as_ref().map(|code| code.as_str()), text);
    if let Some(OutcomeBy::Recovery) = end.by {
        b.extend_from_slice(b",\"by\":\"recovery\"");
    }
    b.push(b'}');
}

fn maybe<T>(b: &mut Vec<u8>, key: &str, value: Option<T>, add: impl FnOnce(&mut Vec<u8>, &str, T)) {
    if let Some(value) = value {
        add(b, key, value);
    }
}

fn json(b: &mut Vec<u8>, value: &impl serde::Serialize) -> Result<(), AuditError> {
    serde_json::to_writer(b, value).map_err(|e| AuditError::Write(e.into()))
}

fn text(b: &mut Vec<u8>, key: &str, value: &str) {
    b.extend_from_slice(key.as_bytes());
    // No early exit, so the loop vectorises.
    let escaped = |found, byte: u8| found | (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if value.bytes().fold(false, escaped) {
        // Writing to a vector cannot fail, and a string always serializes.
        let _ = json(b, &value);
    } else {
        b.push(b'"');
        b.extend_from_slice(value.as_bytes());
        b.push(b'"');
    }
}

/// Hexadecimal digits of each byte.
static HEX: [[u8; 2]; 256] = hex_digits();

const fn hex_digits() -> [[u8; 2]; 256] {
    let (mut digits, mut byte) = ([[0; 2]; 256], 0_u8);
    let mut rest: &mut [[u8; 2]] = &mut digits;
    while let [pair, later @ ..] = rest {
        *pair = [hex_digit(byte >> 4), hex_digit(byte & 0xF)];
        (rest, byte) = (later, byte.wrapping_add(1));
    }
    digits
}

const fn hex_digit(nibble: u8) -> u8 {
    nibble.wrapping_add(if nibble > 9 { b'a'.wrapping_sub(10) } else { b'0' })
}

fn digest(b: &mut Vec<u8>, key: &str, value: &Digest) {
    b.extend_from_slice(key.as_bytes());
    let mut hex = [b'"'; 66];
    let [_, digits @ .., _] = &mut hex;
    for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(value.as_bytes()) {
        *pair = HEX.get(usize::from(*byte)).copied().unwrap_or_default();
    }
    b.extend_from_slice(&hex);
}

fn number(b: &mut Vec<u8>, key: &str, value: u64) {
    b.extend_from_slice(key.as_bytes());
    b.extend_from_slice(Digits::of(value).as_bytes());
}

/// Decimal digits of a number.
struct Digits {
    digits: [u8; 20],
    used: usize,
}

impl Digits {
    fn of(value: u64) -> Self {
        let (mut digits, mut rest, mut used) = ([b'0'; 20], value, 0_usize);
        for digit in digits.iter_mut().rev() {
            *digit = u8::try_from(rest % 10).unwrap_or_default().wrapping_add(b'0');
            (rest, used) = (rest / 10, used.saturating_add(1));
            if rest == 0 {
                break;
            }
        }
        Self { digits, used }
    }

    fn as_bytes(&self) -> &[u8] {
        self.digits.get(20_usize.saturating_sub(self.used)..).unwrap_or_default()
    }
}

/// A line as `serde` writes it. Tests compare it with the lines that are written by hand.
#[cfg(test)]
#[derive(serde::Serialize)]
pub(crate) struct WireLine<'a> {
    pub(crate) seq: u64,
    #[serde(flatten)]
    pub(crate) record: &'a Record,
}

/// A line as `serde` reads it.
#[derive(serde::Deserialize)]
struct ReadLine {
    seq: u64,
    #[serde(flatten)]
    record: Record,
}

/// Parses one line, without its newline.
pub(crate) fn parse_line(line: &[u8]) -> Option<(u64, Record)> {
    serde_json::from_slice(line).ok().map(|ReadLine { seq, record }| (seq, record))
}
