use unicode_security::confusable_detection::skeleton;

/// Returns the two keys of a name. Two names look alike if their first keys or their second keys are equal.
///
/// The keys apply full case mapping and the skeleton of UTS #39 in both orders. A run of whitespace counts as one
/// space; trailing dots and spaces are dropped. One key is not enough, because the skeleton of `I` is `l` while its
/// lower case is `i`: equal skeletons give equal first keys, equal case mappings equal second keys.
///
/// Source: UTS #39, section 4, in the version of the crate `unicode-security`.
#[must_use]
pub fn lookalike_keys(name: &str) -> [String; 2] {
    let plain = single_spaced(name);
    // why: folding may create characters that have a skeleton, and a skeleton may contain characters that fold.
    [fold(&bones(&plain)), bones(&fold(&bones(&fold(&plain))))]
}

/// Returns whether a person could confuse the two names ([`lookalike_keys`]).
#[must_use]
pub fn look_alike(one: &str, other: &str) -> bool {
    one == other || lookalike_keys(one).iter().zip(lookalike_keys(other)).any(|(one, other)| *one == other)
}

/// Maps to upper, then to lower case. Names that differ in case alone become equal (sharp s and SS, both sigmas).
fn fold(text: &str) -> String {
    text.to_uppercase().chars().flat_map(char::to_lowercase).collect()
}

fn bones(text: &str) -> String {
    single_spaced(&skeleton(text).collect::<String>())
}

/// Replaces each run of whitespace by one space, and drops trailing dots and spaces.
fn single_spaced(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches(['.', ' ']).to_owned()
}
