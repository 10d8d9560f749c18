use crate::bench::Bench;

fn operator(bench: &Bench, name: &str) {
    bench.ok(&format!("keys generate --kind ed25519 --out {name}.key --public-out {name}.pub"));
}

#[cfg(unix)]
#[test]
fn generated_secret_keys_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    operator(&bench, "op");
    bench.ok("keys generate --kind hmac --out gate.key");
    for name in ["op.key", "gate.key"] {
        assert_eq!(bench.path(name).metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn generated_keys_differ_and_never_replace_a_file() {
    let bench = Bench::new();
    operator(&bench, "a");
    operator(&bench, "b");
    assert_ne!(bench.read("a.key"), bench.read("b.key"));
    bench.fails("keys generate --kind ed25519 --out a.key", 1, "FILE_EXISTS");
    bench.fails("keys generate --kind hmac --out a.key", 1, "FILE_EXISTS");
    bench.fails("keys generate --kind ed25519 --out c.key --public-out a.pub", 1, "FILE_EXISTS");
    bench.fails("keys generate --kind ed25519 --out no/such/folder.key", 1, "KEY_FILE_WRITE");
    bench.fails("keys generate --kind ed25519 --out c.key --public-out no/such/c.pub", 1, "KEY_FILE_WRITE");
}

#[test]
fn impossible_options_of_generate_are_wrong_usage() {
    let bench = Bench::new();
    bench.fails("keys generate --kind ed25519 --out a --public-out a", 2, "USAGE");
    bench.fails("keys generate --kind ed25519 --out a --id mine", 2, "USAGE");
    bench.fails("keys generate --kind hmac --out a --public-out b", 2, "USAGE");
    bench.fails_with(&["keys", "generate", "--kind", "hmac", "--out", "a", "--id", ""], "", 2, "USAGE");
    bench.fails_with(&["keys", "generate", "--kind", "hmac", "--out", "a", "--id", "a\nb"], "", 2, "USAGE");
}

#[test]
fn keys_show_never_prints_the_secret() {
    let bench = Bench::new();
    operator(&bench, "op");
    bench.ok("keys generate --kind hmac --out gate.key --id gate-1");
    for name in ["op.key", "gate.key"] {
        let file: serde_json::Value = serde_json::from_str(&bench.read(name)).unwrap();
        let secret = file["secret"].as_str().unwrap();
        for line in [format!("keys show {name}"), format!("keys show {name} --json")] {
            let shown = bench.ok(&line);
            assert!(!shown.contains(secret), "{shown}");
            assert!(shown.contains(file["key_id"].as_str().unwrap()), "{shown}");
        }
    }
    let secret = bench.run("keys show op.key --json").value();
    let public = bench.run("keys show op.pub --json").value();
    assert_eq!(secret["public"], public["public"]);
    assert_eq!(public["kind"], "ed25519-public");
    assert_eq!(bench.run("keys show gate.key --json").value()["key_id"], "gate-1");
}

#[cfg(unix)]
#[test]
fn a_secret_key_that_others_can_read_is_refused() {
    let bench = Bench::new();
    bench.ok("keys generate --kind hmac --out gate.key");
    bench.mode("gate.key", 0o644);
    bench.fails("keys show gate.key", 1, "KEY_FILE_TOO_OPEN");
    bench.mode("gate.key", 0o600);
    bench.ok("keys show gate.key");
}

#[cfg(unix)]
#[test]
fn key_files_that_are_no_keys_are_refused_each_with_its_code() {
    let bench = Bench::new();
    let write = |text: &str| {
        bench.write("k", text);
        bench.mode("k", 0o600);
    };
    let hmac = |secret: &str| {
        format!(
            "{{\"format\":\"countersign-key-1\",\"kind\":\"hmac\",\"key_id\":\"k\",\"secret\":\"{secret}\"}}"
        )
    };
    bench.fails("keys show missing.key", 1, "KEY_FILE_MISSING");
    bench.fails("keys show .", 1, "KEY_FILE_UNREADABLE");
    write("");
    bench.fails("keys show k", 1, "KEY_FILE_MALFORMED");
    write(&hmac("AAEC"));
    bench.fails("keys show k", 1, "KEY_TOO_SHORT");
    write(&hmac("AAEC").replace("key-1", "key-2"));
    bench.fails("keys show k", 1, "KEY_FILE_VERSION");
    write(&hmac("AAEC").replace("}", ",\"extra\":1}"));
    bench.fails("keys show k", 1, "KEY_FILE_MALFORMED");
    write(&hmac(&"A".repeat(20_000)));
    bench.fails("keys show k", 1, "KEY_FILE_TOO_LARGE");
}

#[test]
fn trust_root_needs_distinct_keys_for_its_threshold() {
    let bench = Bench::new();
    operator(&bench, "a");
    operator(&bench, "b");
    let root = bench.run("keys trust --threshold 2 --out root.json a.pub b.pub --json").value();
    assert_eq!((root["version"].as_u64(), root["threshold"].as_u64()), (Some(1), Some(2)));
    assert_eq!(root["keys"].as_array().unwrap().len(), 2);
    bench.fails("keys trust --threshold 1 --out root.json a.pub", 1, "FILE_EXISTS");
    bench.fails("keys trust --threshold 3 --out r.json a.pub b.pub", 1, "ROOT_THRESHOLD");
    bench.fails("keys trust --threshold 0 --out r.json a.pub b.pub", 1, "ROOT_THRESHOLD");
    bench.fails("keys trust --threshold 1 --out r.json a.pub a.pub", 1, "ROOT_KEYS");
    bench.fails("keys trust --threshold 1 --out r.json a.key", 1, "KEY_FILE_KIND");
    bench.fails("keys trust --threshold 1 --out r.json", 2, "USAGE");
    bench.fails("keys trust --threshold 1 --out r.json c.pub", 1, "KEY_FILE_MISSING");
    bench.ok("keys trust --threshold 1 --out root.json --force a.pub");
}

#[test]
fn a_root_is_handed_on_by_enough_keys_of_both_roots() {
    let bench = Bench::new();
    operator(&bench, "old");
    operator(&bench, "new");
    bench.ok("keys trust --threshold 1 --out root-1.json old.pub");
    bench.ok("keys trust --threshold 1 --root-version 2 --out root-2.json new.pub");
    bench.ok("keys trust-update sign --next root-2.json --key old.key --out half.json");
    bench.fails(
        "keys trust-update verify half.json --trust-root root-1.json --out r.json",
        3,
        "ENVELOPE_THRESHOLD",
    );
    bench.ok("keys trust-update sign --next root-2.json --key old.key --key new.key --out both.json");
    bench.fails("keys trust-update sign --next root-2.json --key old.key --out both.json", 1, "FILE_EXISTS");
    bench.ok("keys trust-update verify both.json --trust-root root-1.json --out r.json");
    assert_eq!(bench.read("r.json"), bench.read("root-2.json"));

    bench.ok("keys trust --threshold 1 --root-version 3 --out root-3.json new.pub");
    bench.ok("keys trust-update sign --next root-3.json --key old.key --key new.key --out skip.json");
    bench.fails("keys trust-update verify skip.json --trust-root root-1.json", 3, "ROOT_VERSION");
    bench.write("garbage.json", "[]");
    bench.fails("keys trust-update verify garbage.json --trust-root root-1.json", 3, "ENVELOPE_MALFORMED");
    bench.fails("keys trust-update verify both.json --trust-root garbage.json", 1, "ROOT_MALFORMED");
}

#[test]
fn keyring_as_json_is_one_object_with_the_file() {
    let bench = Bench::new();
    operator(&bench, "cfo");
    let made = |verb: &str| {
        let report = bench.run(&format!("keys keyring {verb} --json")).value();
        assert_eq!(report.as_object().unwrap().keys().collect::<Vec<_>>(), ["keyring", "ok"], "{report}");
        assert_eq!(report["ok"], true);
        let file: serde_json::Value =
            serde_json::from_str(&bench.ok(&format!("keys keyring {verb}"))).unwrap();
        assert_eq!(report["keyring"], file);
        file
    };
    bench.write("keyring.json", made("--add cfo-1=cfo.pub").to_string());
    assert!(bench.ok("keys keyring keyring.json").starts_with("1 key, 1 active"));
    assert!(made("--write-example")["trusted_keys"].is_object());
}
