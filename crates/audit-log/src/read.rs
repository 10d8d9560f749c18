use crate::Record;

/// A line as `serde` writes it: the lines that are written by hand are held equal to it.
#[cfg(test)]
#[derive(serde::Serialize)]
pub(crate) struct WireLine<'a> {
    pub(crate) seq: u64,
    #[serde(flatten)]
    pub(crate) record: &'a Record,
}

/// A line as it is read.
#[derive(serde::Deserialize)]
struct ReadLine {
    seq: u64,
    #[serde(flatten)]
    record: Record,
}

/// Reads one line, without its newline.
pub(crate) fn parse_line(line: &[u8]) -> Option<(u64, Record)> {
    serde_json::from_slice(line).ok().map(|ReadLine { seq, record }| (seq, record))
}
