use std::collections::BTreeMap;

use unicode_security::confusable_detection::skeleton;

/// Finds two names that a person could take for one another.
///
/// Two names look alike when full case mapping or the skeleton of UTS #39 makes them equal, alone or one after the
/// other; runs of white space count as one, and dots or blanks at the end do not count. One key is not enough, because
/// the skeleton of `I` is `l` while its lower case is `i`.
#[derive(Debug, Default)]
pub(crate) struct LookAlikes<'a> {
    seen: BTreeMap<(usize, String), &'a str>,
}

impl<'a> LookAlikes<'a> {
    /// Adds a name; gives the earlier one that it looks like, if there is one. Adding a name twice is no clash.
    pub(crate) fn add(&mut self, name: &'a str) -> Option<&'a str> {
        let mut clash = None;
        for (kind, key) in keys(name).into_iter().enumerate() {
            let first = *self.seen.entry((kind, key)).or_insert(name);
            if first != name {
                clash = clash.or(Some(first));
            }
        }
        clash
    }
}

/// What must differ between two names for them not to look alike. Equal skeletons give equal first keys, equal case
/// mappings equal second ones.
fn keys(name: &str) -> [String; 2] {
    let plain = blanks(name);
    // Folding after a skeleton, and the other way round, may bring in what the other one maps.
    [fold(&bones(&plain)), bones(&fold(&bones(&fold(&plain))))]
}

/// Upper, then lower case by full mappings: equal for whatever differs in case alone (sharp s and SS, both sigmas).
fn fold(text: &str) -> String {
    text.to_uppercase().chars().flat_map(char::to_lowercase).collect()
}

fn bones(text: &str) -> String {
    blanks(&skeleton(text).collect::<String>())
}

/// Puts one blank for each run of them and takes dots and blanks off the end.
fn blanks(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches(['.', ' ']).to_owned()
}
