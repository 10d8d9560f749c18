use crate::Record;

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
