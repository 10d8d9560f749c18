use std::str::Split;

use countersign_core::is_hidden;

use crate::ResolveError;

const SCHEME: &str = "file://";
const MAX_BYTES: usize = 1_024;
const MAX_COMPONENTS: usize = 32;
const MAX_NAME_BYTES: usize = 255;

/// Splits a reference into the names from the evidence folder to the file. All resolvers share this grammar.
///
/// A reference is `file://` and 1 to 32 names separated by `/`, 1,024 bytes in all. A name has 1 to 255 bytes, is not
/// `.` or `..`, and is taken literally: it is not decoded, folded or normalised, so a file has one reference.
/// Characters with a meaning to URL parsers are refused everywhere.
pub(crate) fn plain_names(reference: &str) -> Result<Split<'_, char>, ResolveError> {
    let path = reference.strip_prefix(SCHEME).ok_or(ResolveError::Reference)?;
    if reference.len() > MAX_BYTES || path.chars().any(is_refused) {
        return Err(ResolveError::Reference);
    }
    let names = path.split('/');
    if names.clone().count() > MAX_COMPONENTS || !names.clone().all(is_name) {
        return Err(ResolveError::Reference);
    }
    Ok(names)
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name != "." && name != ".."
}

/// Escapes, other separators, query, fragment, authority and its brackets, and invisible characters.
const fn is_refused(c: char) -> bool {
    is_hidden(c) || is_refused_folded(c) || matches!(c, '%' | '\\' | '?' | '#' | ':' | '@' | '[' | ']')
}

/// Characters that become one of these, or `/`, under NFKC, which some URL parsers apply (complete for Unicode 17).
const fn is_refused_folded(c: char) -> bool {
    matches!(
        c,
        '\u{2047}'..='\u{2049}'
            | '\u{2100}'..='\u{2101}'
            | '\u{2105}'..='\u{2106}'
            | '\u{2A74}'
            | '\u{FE13}'
            | '\u{FE16}'
            | '\u{FE47}'..='\u{FE48}'
            | '\u{FE55}'..='\u{FE56}'
            | '\u{FE5F}'
            | '\u{FE68}'
            | '\u{FE6A}'..='\u{FE6B}'
            | '\u{FF03}'
            | '\u{FF05}'
            | '\u{FF0F}'
            | '\u{FF1A}'
            | '\u{FF1F}'..='\u{FF20}'
            | '\u{FF3B}'..='\u{FF3D}'
    )
}
