/// Methods of MCP that read: the registry lists what they may read as entries of these names.
const READS: [&str; 3] = ["completion/complete", "prompts/get", "resources/read"];

/// Returns whether a name is that of an entry for reads, which is no tool of a server: `resources/read`, `prompts/get` or
/// `completion/complete`, alone or with a slash and a word of the operator's (`resources/read/manuals`).
///
/// The arguments of such a call are the params of the method (MCP 2025-11-25, *Resources*, *Prompts*, *Completion*). It has no
/// definition to pin.
///
/// ```
/// use countersign_registry::is_read_name;
/// assert!(is_read_name("prompts/get") && is_read_name("resources/read/manuals"));
/// assert!(!is_read_name("resources/reader"));
/// ```
#[must_use]
pub fn is_read_name(name: &str) -> bool {
    READS
        .into_iter()
        .filter_map(|read| name.strip_prefix(read))
        .any(|rest| rest.is_empty() || rest.starts_with('/'))
}
