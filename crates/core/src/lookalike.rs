use unicode_security::confusable_detection::skeleton;

/// Returns the two keys of a name. Two names look alike when either key is equal at the same place.
///
/// Full case mapping and the skeleton of UTS #39 are applied one after the other, in both orders; a run of whitespace
/// counts as one space, and dots or spaces at the end do not count. One key is not enough, because the skeleton of `I`
/// is `l` while its lower case is `i`: equal skeletons give equal first keys, equal case mappings equal second ones.
///
/// Source: UTS #39 section 4, in the version of the crate `unicode-security`.
#[must_use]
pub fn lookalike_keys(name: &str) -> [String; 2] {
    let plain = single_spaced(name);
    // Folding after a skeleton, and the other way round, may bring in what the other one maps.
    [fold(&bones(&plain)), bones(&fold(&bones(&fold(&plain))))]
}

/// Returns whether a person could take one name for the other ([`lookalike_keys`]).
#[must_use]
pub fn look_alike(one: &str, other: &str) -> bool {
    one == other || lookalike_keys(one).iter().zip(lookalike_keys(other)).any(|(one, other)| *one == other)
}

/// Upper, then lower case by full mappings: equal for names that differ in case alone (sharp s and SS, both sigmas).
fn fold(text: &str) -> String {
    text.to_uppercase().chars().flat_map(char::to_lowercase).collect()
}

fn bones(text: &str) -> String {
    single_spaced(&skeleton(text).collect::<String>())
}

/// Puts one space for each run of whitespace, and drops dots and spaces from the end.
fn single_spaced(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches(['.', ' ']).to_owned()
}
