//! Counts made line by line: comments, and the names of tests.

/// Phrases that stand for a noun in a comment.
const RIDDLES: [&str; 12] = [
    "whoever", "nobody", "somebody", "anybody", "is none", "is told", "are told", "was told", "what is",
    "what was", "what has", "what are",
];

/// The comment of a line, doc comments included.
fn comment(line: &str) -> Option<&str> {
    line.split_once("//").map(|(_, comment)| comment)
}

/// Number of lines whose comment has one of these phrases.
pub(crate) fn riddles(text: &str) -> usize {
    let has = |comment: &str| {
        let comment = comment.to_lowercase();
        RIDDLES.iter().any(|phrase| has_words(&comment, phrase))
    };
    text.lines().filter_map(comment).filter(|comment| has(comment)).count()
}

/// Whether the phrase stands in the text between other words.
fn has_words(text: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(place, _)| {
        let (before, behind) = text.split_at(place);
        !is_letter(before.chars().next_back()) && !is_letter(behind.chars().nth(phrase.chars().count()))
    })
}

/// The names of functions that stand behind an attribute `#[test]`, those inside macros included.
pub(crate) fn test_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut expected = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            expected |= line.starts_with("#[test]") || line.contains("::test");
            continue;
        }
        let function = line.split_once("fn ").map(|(_, rest)| rest);
        if let Some(name) = function.and_then(|rest| rest.split(['(', '<']).next()).filter(|_| expected) {
            names.push(name);
        }
        expected &= line.starts_with("//") || line.is_empty();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_count_in_comments_as_whole_words() {
        assert_eq!(riddles("/// Whoever signs it.\nlet nobody = 1;\nx(); // a list that is nonempty\n"), 1);
    }

    #[test]
    fn names_behind_test_attributes_are_found() {
        let text = "#[test]\n#[ignore]\n/// Why.\nfn first() {}\nfn helper() {}\n\
            proptest! {\n    #[test]\n    fn second(x in 0..9) {}\n}\n#[tokio::test]\nasync fn third() {}\n";
        assert_eq!(test_names(text), ["first", "second", "third"]);
    }
}
