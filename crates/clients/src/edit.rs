use std::ops::Range;

/// One change of a text: these bytes become that text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) at: Range<usize>,
    pub(crate) text: String,
}

impl Edit {
    pub(crate) fn replace(at: &Range<usize>, text: impl Into<String>) -> Self {
        Self { at: at.clone(), text: text.into() }
    }

    pub(crate) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self { at: at..at, text: text.into() }
    }

    pub(crate) fn delete(at: Range<usize>) -> Self {
        Self { at, text: String::new() }
    }
}

/// Applies edits that do not overlap; `None` if a range is not within the text.
pub(crate) fn apply(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort_by_key(|edit| edit.at.start);
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for edit in edits {
        out.push_str(text.get(done..edit.at.start)?);
        out.push_str(&edit.text);
        done = edit.at.end;
    }
    out.push_str(text.get(done..)?);
    Some(out)
}
