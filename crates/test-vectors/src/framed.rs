use std::fmt::Display;

use serde_json::{Value, json};

/// A byte string as a vector shows it: a domain label and fields, each behind its length as eight big-endian bytes.
///
/// Put together here a second time, so that a vector does not only say what the code does.
#[derive(Clone, Debug)]
#[must_use]
pub struct Framed {
    label: String,
    fields: Vec<(String, Vec<u8>)>,
}

impl Framed {
    /// Starts with the label.
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), fields: Vec::new() }
    }

    /// Adds a field, under a name for the reader.
    pub fn field(mut self, name: &str, bytes: &[u8]) -> Self {
        self.fields.push((name.to_owned(), bytes.to_vec()));
        self
    }

    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let fields = self.fields.iter().map(|(_, bytes)| bytes.as_slice());
        std::iter::once(self.label.as_bytes()).chain(fields).flat_map(framed).collect()
    }

    /// A vector of the kind that says so: what it is about, what it is made from, the bytes in hexadecimal, and what comes out.
    #[must_use]
    pub fn vector(&self, about: &str, kind: &str, input: &Value, digest: impl Display) -> Value {
        let field = |(name, bytes): &(String, Vec<u8>)| json!({ "name": name, "hex": hex(bytes) });
        json!({
            "description": about, "kind": kind, "label": self.label, "input": input,
            "fields": self.fields.iter().map(field).collect::<Vec<_>>(),
            "bytes": hex(&self.bytes()), "sha256": digest.to_string(),
        })
    }
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_be_bytes(), bytes].concat()
}

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
