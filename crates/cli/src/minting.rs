//! The command that approves one call: `token mint` with every binding.

use countersign_core::{CallFacts, Millis};

/// Returns the lifetime of a minted token: 10 minutes, or the gate's maximum if that is shorter.
pub(crate) fn minted_ttl(most: Millis) -> Millis {
    most.min(Millis::from_secs(600))
}

/// Lists the bindings of a token except the arguments, by their option names in `token mint`.
pub(crate) fn bound(binding: &CallFacts) -> Vec<(&'static str, String)> {
    let mut bound = vec![
        ("call-id", binding.call_id.to_string()),
        ("server", binding.tool.server().to_string()),
        ("tool", binding.tool.name().to_string()),
        ("principal", binding.principal.to_string()),
    ];
    bound.extend(binding.agent.as_ref().map(|agent| ("agent", agent.to_string())));
    bound.extend(binding.session.as_ref().map(|session| ("session", session.to_string())));
    bound.extend(binding.audience.as_ref().map(|audience| ("audience", audience.to_string())));
    bound.extend(binding.definition.as_ref().map(|definition| ("definition", definition.to_string())));
    bound.extend(binding.ask.as_ref().map(|goal| ("ask", goal.to_string())));
    bound.extend(binding.plan.as_ref().map(|plan| ("plan", plan.to_string())));
    bound.extend(binding.registry_version.map(|version| ("registry-version", version.to_string())));
    bound
}

/// Builds the command that mints the token, as words.
pub(crate) fn mint_words(
    key_file: &str,
    run: &str,
    ttl: Millis,
    binding: &CallFacts,
    args_file: &str,
) -> Vec<String> {
    let first = [("key-file", key_file.to_owned()), ("run", run.to_owned())];
    let last = [("args", args_file.to_owned()), ("ttl", ttl.to_string())];
    let options = first.into_iter().chain(bound(binding)).chain(last);
    let verb = ["countersign", "token", "mint"].map(str::to_owned).into_iter();
    // Name and value form one word: a value may begin with a dash.
    verb.chain(options.map(|(name, value)| format!("--{name}={value}"))).collect()
}

/// Joins words into one line for a POSIX shell.
pub(crate) fn shell_line(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a POSIX shell.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn path_with_a_quotation_mark_is_one_word() {
        assert_eq!(shell_word("/usr/bin/countersign"), "/usr/bin/countersign");
        assert_eq!(shell_word("/srv/ada's; rm x"), r"'/srv/ada'\''s; rm x'");
        assert_eq!(shell_word(""), "''");
    }
}
