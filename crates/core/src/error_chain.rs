use std::error::Error;

/// An error and its sources in one line: `outer: inner: innermost`.
///
/// Some libraries repeat a source's text in the error's own. Such a text is written once, in its longer form.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut said = vec![error.to_string()];
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        if said.last().is_some_and(|last| ends_in(&text, last)) {
            said.pop();
        }
        if !said.last().is_some_and(|last| ends_in(last, &text)) {
            said.push(text);
        }
        next = source.source();
    }
    said.join(": ")
}

/// Returns whether `part` is the whole text, or follows a colon at its end.
fn ends_in(text: &str, part: &str) -> bool {
    text.strip_suffix(part).is_some_and(|before| before.is_empty() || before.ends_with(": "))
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fmt;

    use super::error_chain;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Self>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|layer| layer as &dyn Error)
        }
    }

    fn said(layers: &[&'static str]) -> String {
        let (first, rest) = layers.split_first().unwrap();
        let nest = |inner: Option<Box<Layer>>, text: &&'static str| Some(Box::new(Layer(text, inner)));
        error_chain(&Layer(first, rest.iter().rev().fold(None, nest)))
    }

    #[test]
    fn repeated_source_text_is_left_out() {
        assert_eq!(said(&["outer", "inner", "innermost"]), "outer: inner: innermost");
        let disk = ["the store failed", "disk I/O error", "Error code 778: disk I/O error"];
        assert_eq!(said(&disk), "the store failed: Error code 778: disk I/O error");
        assert_eq!(said(&["cannot write: no space", "no space"]), "cannot write: no space");
        assert_eq!(said(&["a", "a", "a"]), "a");
        // The end of a word is not the same text.
        assert_eq!(said(&["unable", "able"]), "unable: able");
    }
}
