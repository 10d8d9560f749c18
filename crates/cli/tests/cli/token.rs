use crate::bench::{Bench, Run};

/// A gate's key, a file of arguments, and the bindings that every token requires.
struct Mint {
    bench: Bench,
}

const REQUIRED: [(&str, &str); 6] = [
    ("--key-file", "gate.key"),
    ("--call-id", "c1"),
    ("--server", "desk"),
    ("--tool", "refund"),
    ("--args", "args.json"),
    ("--principal", "alice"),
];

impl Mint {
    fn new() -> Self {
        let bench = Bench::new();
        bench.ok("keys generate --kind hmac --out gate.key");
        bench.ok("store init spent.sqlite");
        bench.write("args.json", "{\"id\": 7, \"amount\": 10.0}");
        Self { bench }
    }

    /// Returns the required bindings, some of them replaced and others added.
    fn args<'a>(verb: &'a str, changed: &[(&'a str, &'a str)]) -> Vec<&'a str> {
        let mut args = vec!["token", verb];
        for (name, value) in REQUIRED {
            if changed.iter().all(|(other, _)| *other != name) {
                args.extend([name, value]);
            }
        }
        args.extend(changed.iter().flat_map(|(name, value)| [*name, *value]));
        args
    }

    fn mint(&self, changed: &[(&str, &str)]) -> String {
        let mut args = Self::args("mint", changed);
        if !args.contains(&"--ttl") {
            args.extend(["--ttl", "300s"]);
        }
        self.bench.run_args(&args, "").done().trim_end().to_owned()
    }

    fn verify(&self, token: &str, changed: &[(&str, &str)]) -> Run {
        let mut args = Self::args("verify", changed);
        args.extend(["--token", token]);
        self.bench.run_args(&args, "")
    }

    #[track_caller]
    fn refused(&self, token: &str, changed: &[(&str, &str)], code: &str) {
        let run = self.verify(token, changed);
        assert_eq!(run.code, 3, "{changed:?}: {run:?}");
        assert!(run.err.starts_with(&format!("error {code}: ")), "{changed:?}: {run:?}");
        assert!(token.is_empty() || !run.err.contains(token), "{run:?}");
    }
}

#[test]
fn a_token_verifies_against_the_same_call_as_often_as_one_likes() {
    let mint = Mint::new();
    let token = mint.mint(&[]);
    assert!(token.starts_with("cs1."));
    assert_eq!(mint.verify(&token, &[]).code, 0);
    mint.bench.write("args.json", "{\"amount\":1e1,\"id\":7.0}");
    assert_eq!(mint.verify(&token, &[]).code, 0);
    let mut args = Mint::args("verify", &[]);
    args.extend(["--token", "-", "--json"]);
    let report = mint.bench.run_args(&args, &format!("{token}\n")).value();
    assert_eq!((report["ok"].as_bool(), report["spent"].as_bool()), (Some(true), Some(false)));
}

#[test]
fn verify_names_the_binding_that_differs_to_the_key_holder() {
    let mint = Mint::new();
    mint.bench.write("other.json", "{}");
    let token = mint.mint(&[("--session", "s1")]);
    for (name, value) in
        [("--session", "s2"), ("--call-id", "c2"), ("--args", "other.json"), ("--principal", "eve")]
    {
        let mut changed = vec![(name, value)];
        if name != "--session" {
            changed.push(("--session", "s1"));
        }
        let run = mint.verify(&token, &changed);
        assert!(run.code == 3 && run.err.contains(&format!(" {name}")), "{run:?}");
    }
    // Without the key, the error reveals nothing of the token's content.
    mint.bench.ok("keys generate --kind hmac --out other.key");
    let run = mint.verify(&token, &[("--key-file", "other.key"), ("--session", "s2")]);
    assert_eq!(run.err, "error APPROVAL_INVALID: the approval is not valid for this call\n");
}

#[test]
fn a_token_is_spent_once() {
    let mint = Mint::new();
    let token = mint.mint(&[]);
    let spend = [("--spend", "spent.sqlite")];
    assert_eq!(mint.verify(&token, &spend).code, 0);
    mint.refused(&token, &spend, "APPROVAL_SPENT");
    assert_eq!(mint.verify(&mint.mint(&[]), &spend).code, 0);
}

#[test]
fn an_invalid_token_does_not_touch_the_store() {
    let mint = Mint::new();
    let token = mint.mint(&[]);
    let before = mint.bench.snapshot();
    mint.refused(&token, &[("--call-id", "c2"), ("--spend", "spent.sqlite")], "APPROVAL_INVALID");
    assert_eq!(mint.bench.snapshot(), before);
    assert_eq!(mint.verify(&token, &[("--spend", "spent.sqlite")]).code, 0);
}

#[test]
fn a_token_for_another_call_is_refused_whatever_differs() {
    let mint = Mint::new();
    let token = mint.mint(&[]);
    mint.bench.write("other.json", "{\"id\": 7, \"amount\": 11}");
    mint.bench.ok("keys generate --kind hmac --out other.key");
    let digest = "0".repeat(64);
    for changed in [
        ("--call-id", "c2"),
        ("--server", "mail"),
        ("--tool", "search"),
        ("--args", "other.json"),
        ("--principal", "mallory"),
        ("--run", "other"),
        ("--session", "s1"),
        ("--agent", "a1"),
        ("--audience", "g1"),
        ("--definition", &digest),
        ("--ask", &digest),
        ("--plan", &digest),
        ("--registry-version", "7"),
        ("--key-file", "other.key"),
    ] {
        mint.refused(&token, &[changed], "APPROVAL_INVALID");
    }
}

#[test]
fn every_binding_that_was_minted_must_be_given_again() {
    let mint = Mint::new();
    let digest = "0".repeat(64);
    let other = "1".repeat(64);
    for (name, value, wrong) in [
        ("--session", "s1", "s2"),
        ("--agent", "a1", "a2"),
        ("--audience", "g1", "g2"),
        ("--definition", digest.as_str(), other.as_str()),
        ("--ask", &digest, &other),
        ("--plan", &digest, &other),
        ("--registry-version", "7", "8"),
        ("--run", "r1", "r2"),
    ] {
        let token = mint.mint(&[(name, value)]);
        assert_eq!(mint.verify(&token, &[(name, value)]).code, 0, "{name}");
        mint.refused(&token, &[(name, wrong)], "APPROVAL_INVALID");
        mint.refused(&token, &[], "APPROVAL_INVALID");
    }
}

#[test]
fn a_token_that_knows_less_passes_only_where_that_is_asked_for() {
    let mint = Mint::new();
    let token = mint.mint(&[]);
    mint.refused(&token, &[("--session", "s1")], "APPROVAL_INVALID");
    let mut args = Mint::args("verify", &[("--session", "s1")]);
    args.extend(["--accept-partial", "--token", &token]);
    assert_eq!(mint.bench.run_args(&args, "").code, 0);
}

#[test]
fn the_same_terms_give_the_same_token() {
    let mint = Mint::new();
    let terms = [("--token-id", "t1"), ("--issued", "1700000000000")];
    assert_eq!(mint.mint(&terms), mint.mint(&terms));
    assert_ne!(mint.mint(&[]), mint.mint(&[]));
    mint.refused(&mint.mint(&terms), &[], "APPROVAL_EXPIRED");
}

#[test]
fn times_that_no_approval_may_have_are_refused() {
    let mint = Mint::new();
    let fails = |changed: &[(&str, &str)], exit: i32, code: &str| {
        mint.bench.fails_with(&Mint::args("mint", changed), "", exit, code);
    };
    fails(&[("--ttl", "0s")], 1, "APPROVAL_TTL");
    fails(&[("--ttl", "2h")], 1, "APPROVAL_TTL");
    fails(&[("--ttl", "-1s")], 2, "USAGE");
    fails(&[], 2, "USAGE");
    fails(&[("--ttl", "60s"), ("--issued", "9007199254740991")], 1, "APPROVAL_TIME");
    fails(&[("--ttl", "60s"), ("--issued", "1e9")], 2, "USAGE");
    fails(&[("--ttl", "60s"), ("--approver", "bot"), ("--agent", "bot")], 1, "APPROVAL_SELF");
    let later = mint.mint(&[("--issued", "9007199250000000"), ("--ttl", "60s")]);
    mint.refused(&later, &[], "APPROVAL_INVALID");
}

#[test]
fn a_token_that_counts_for_too_long_is_refused() {
    let mint = Mint::new();
    let years = mint.mint(&[("--ttl", "3650d"), ("--ttl-cap", "3650d")]);
    mint.refused(&years, &[], "APPROVAL_INVALID");
    assert_eq!(mint.verify(&years, &[("--ttl-cap", "3650d")]).code, 0);
    assert_eq!(mint.verify(&mint.mint(&[("--ttl", "1h")]), &[]).code, 0);
}

#[test]
fn bad_input_to_mint_is_one_line_and_no_token() {
    let mint = Mint::new();
    let fails = |changed: &[(&str, &str)], exit: i32, code: &str| {
        let mut args = Mint::args("mint", changed);
        args.extend(["--ttl", "60s"]);
        mint.bench.fails_with(&args, "", exit, code);
    };
    mint.bench.write("array.json", "[]");
    mint.bench.write("twice.json", "{\"a\":1,\"a\":2}");
    mint.bench.write("short.key", "{}");
    fails(&[("--args", "array.json")], 1, "ARGS_NOT_OBJECT");
    fails(&[("--args", "twice.json")], 1, "JSON_DUPLICATE_NAME");
    fails(&[("--args", "missing.json")], 1, "FILE_MISSING");
    fails(&[("--key-file", "missing.key")], 1, "KEY_FILE_MISSING");
    fails(&[("--key-file", "array.json")], 1, "KEY_FILE_MALFORMED");
    fails(&[("--call-id", "")], 2, "USAGE");
    fails(&[("--call-id", "a\u{202e}b")], 2, "USAGE");
    fails(&[("--tool", "re fund")], 2, "USAGE");
    fails(&[("--definition", "abc")], 2, "USAGE");
    #[cfg(unix)]
    {
        mint.bench.mode("gate.key", 0o644);
        fails(&[], 1, "KEY_FILE_TOO_OPEN");
    }
}

#[test]
fn a_text_that_is_no_token_is_refused() {
    let mint = Mint::new();
    let token = mint.mint(&[]);
    let cut = &token[..token.len() - 1];
    for text in ["", "cs1..", "cs2.AA.AA", cut, &format!("{token}="), &format!("{token} ")] {
        mint.refused(text, &[], "APPROVAL_INVALID");
    }
    let mut args = Mint::args("verify", &[("--args", "-")]);
    args.extend(["--token", "-"]);
    mint.bench.fails_with(&args, "", 2, "USAGE");
}

#[test]
fn a_store_that_is_none_is_left_alone() {
    let mint = Mint::new();
    let token = mint.mint(&[]);
    mint.bench.write("noise.sqlite", "hello");
    #[cfg(unix)]
    mint.bench.mode("noise.sqlite", 0o600);
    let mut args = Mint::args("verify", &[("--spend", "noise.sqlite")]);
    args.extend(["--token", &token]);
    mint.bench.fails_with(&args, "", 1, "STORE_CORRUPT");
    let mut args = Mint::args("verify", &[("--spend", ".")]);
    args.extend(["--token", &token]);
    mint.bench.fails_with(&args, "", 1, "STORE_NOT_A_FILE");
}
