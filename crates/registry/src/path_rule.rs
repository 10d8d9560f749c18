use countersign_core::is_hidden;

use crate::content::ConstraintError;

/// Longest path, in bytes.
const MAX_PATH_BYTES: usize = 4_096;

/// Allowed folders of a path.
///
/// The check is lexical: it follows no links and asks no file system, so it does not stop a server that follows links
/// out of a root. An ambiguous path is refused, not normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathRule {
    roots: Vec<Box<str>>,
}

impl PathRule {
    pub(crate) fn new(roots: &[String]) -> Result<Self, ConstraintError> {
        if roots.is_empty() {
            return Err(ConstraintError::Empty);
        }
        let prepared = roots.iter().map(|root| {
            let bare = root.strip_suffix('/').unwrap_or(root);
            if is_plain(bare) { Ok(bare.into()) } else { Err(ConstraintError::Root) }
        });
        Ok(Self { roots: prepared.collect::<Result<_, _>>()? })
    }

    /// Returns whether the path is a root or lies below one, by whole segments.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let bare = path.strip_suffix('/').unwrap_or(path);
        is_plain(bare)
            && self.roots.iter().any(|root| {
                bare.strip_prefix(&**root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    }
}

/// Returns whether the path, without its one trailing slash, is unambiguous.
fn is_plain(path: &str) -> bool {
    let relative = path.strip_prefix('/').unwrap_or(path);
    path.len() <= MAX_PATH_BYTES
        && !path.chars().any(|c| is_special(c) || is_hidden(c) || looks_like_a_separator(c))
        && !has_percent_escape(path)
        && !relative.starts_with('~')
        && relative.split('/').all(is_plain_segment)
}

/// Refuses ambiguous segments: dots and whitespace alone (`.`, `..`, and forms that some systems shorten to them:
/// `.. `, `...`), and `..` before a character that starts a parameter elsewhere (`..;`, `..$`).
pub(crate) fn is_plain_segment(segment: &str) -> bool {
    let after_dots = segment.trim_start_matches('.');
    let dots = segment.len().saturating_sub(after_dots.len());
    segment != "~"
        && segment.chars().any(|c| c != '.' && !c.is_whitespace())
        && (dots < 2 || after_dots.starts_with(char::is_alphanumeric))
}

/// Characters that a shell expands, or that separate segments elsewhere.
const fn is_special(c: char) -> bool {
    matches!(c, '\\' | '*' | '$' | '`')
}

/// `%2e`, `%2F`, `%u002e`: a server that decodes again would see another path.
fn has_percent_escape(path: &str) -> bool {
    path.split('%')
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit() || c.eq_ignore_ascii_case(&'u')))
}

/// Characters that a compatibility or best-fit mapping turns into a dot, a slash or a backslash.
pub(crate) const fn looks_like_a_separator(c: char) -> bool {
    matches!(
        c,
        '\u{2024}'
            ..='\u{2026}'
                | '\u{2044}'
                | '\u{2215}'
                | '\u{2216}'
                | '\u{29F5}'
                | '\u{29F8}'
                | '\u{29F9}'
                | '\u{FE19}'
                | '\u{FE30}'
                | '\u{FE52}'
                | '\u{FE68}'
                | '\u{FF0E}'
                | '\u{FF0F}'
                | '\u{FF3C}'
    )
}
