use countersign_canonical_json::{ValueRef, write_string};

/// Composes one JSON object, member by member, in the given order.
#[derive(Debug)]
pub(crate) struct Object {
    text: String,
}

impl Object {
    pub(crate) fn new() -> Self {
        Self { text: String::from("{") }
    }

    /// Adds a member whose value is already JSON text.
    pub(crate) fn raw(mut self, name: &str, json: &str) -> Self {
        self.name(name);
        self.text.push_str(json);
        self
    }

    /// Adds a string member.
    pub(crate) fn string(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        write_string(&mut self.text, value);
        self
    }

    /// Adds a string member if `value` is present.
    pub(crate) fn maybe_string(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.string(name, value),
            None => self,
        }
    }

    /// Adds a parsed value in its canonical text.
    pub(crate) fn value(self, name: &str, value: ValueRef<'_>) -> Self {
        self.raw(name, &value.canonical_text())
    }

    /// Ends the object.
    pub(crate) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }

    fn name(&mut self, name: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        write_string(&mut self.text, name);
        self.text.push(':');
    }
}

/// A text as JSON.
pub(crate) fn json_string(text: &str) -> String {
    let mut json = String::new();
    write_string(&mut json, text);
    json
}
