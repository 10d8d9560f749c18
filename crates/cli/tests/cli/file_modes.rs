//! Owner and mode of trusted files: the modes that are refused, and the modes that the verbs write.

#![cfg(unix)]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::process::Command;

use serde_json::json;

use crate::bench::Bench;
use crate::mcp::{Client, gateway};

const RUN: &str = "mcp run --config gateway.toml -- true";

/// Returns a gateway that names every file it can.
fn whole_gateway() -> Bench {
    let bench = gateway();
    let mut client = Client::start(&bench);
    client.call("search", json!({}));
    client.end();
    std::fs::create_dir(bench.path("evidence")).unwrap();
    bench.write("evidence/invoice", "42 EUR");
    bench.ok("keys generate --kind ed25519 --out cfo.key --public-out cfo.pub");
    bench.write("keyring.json", bench.ok("keys keyring --add cfo-1=cfo.pub"));
    bench.write("policy.json", "{\"impact_by_tool\": {}}");
    let endorsed = bench.endorse("--file evidence/invoice --impact write --expires 1d --key op.key");
    bench.write("endorsed.json", endorsed);
    let proposals = "[proposals]\nkeyring = \"keyring.json\"\nendorsed = \"endorsed.json\"\n\
                     policy = \"policy.json\"\nevidence_root = \"evidence\"\n";
    bench.write("gateway.toml", format!("{}\n{proposals}", bench.read("gateway.toml")));
    bench
}

/// Each file, with a verb that reads it.
const READ: [(&str, &str); 11] = [
    ("gateway.toml", RUN),
    ("root.json", RUN),
    ("reg.json", RUN),
    ("mark.json", RUN),
    ("keyring.json", RUN),
    ("policy.json", RUN),
    ("endorsed.json", RUN),
    ("op.pub", "keys trust --threshold 1 --out other.json op.pub"),
    ("log.vkey", "audit verify log --key log.vkey"),
    ("reg.json", "registry verify reg.json --trust-root root.json"),
    (
        "reg.json",
        "token mint --key-file gate.key --call-id c1 --server desk --tool search --args policy.json --principal alice \
         --ttl 5m --registry reg.json --trust-root root.json",
    ),
];

#[test]
fn a_file_that_others_may_write_is_refused_with_its_chmod() {
    let bench = whole_gateway();
    for (name, line) in READ {
        let mode = std::fs::metadata(bench.path(name)).unwrap().mode() & 0o777;
        for open in [0o620, 0o602] {
            bench.mode(name, open);
            let run = bench.run(line);
            assert_eq!(run.code, 1, "{name}: {run:?}");
            assert!(run.err.starts_with("error FILE_TOO_OPEN: "), "{name}: {run:?}");
            assert!(run.err.contains("`chmod go-w ") && run.err.contains(name), "{name}: {run:?}");
        }
        bench.mode(name, mode);
    }
}

#[test]
fn the_chmod_of_a_refusal_mends_it() {
    let bench = whole_gateway();
    bench.mode("root.json", 0o666);
    let run = bench.run("registry verify reg.json --trust-root root.json");
    let chmod = run.err.split('`').find(|text| text.starts_with("chmod go-w ")).unwrap();
    assert_eq!(chmod, "chmod go-w root.json");
    assert!(Command::new("sh").args(["-c", chmod]).current_dir(bench.folder()).status().unwrap().success());
    bench.ok("registry verify reg.json --trust-root root.json");
}

#[test]
fn a_file_of_another_user_is_refused() {
    let bench = whole_gateway();
    for (name, line) in READ {
        let uid = std::fs::metadata(bench.path(name)).unwrap().uid();
        // why: only root can change a file's owner, so the test ends early for any other user.
        if chown(bench.path(name), Some(65_534), None).is_err() {
            return;
        }
        let run = bench.run(line);
        assert_eq!(run.code, 1, "{name}: {run:?}");
        assert!(run.err.starts_with("error FILE_OWNER: "), "{name}: {run:?}");
        chown(bench.path(name), Some(uid), None).unwrap();
    }
}

#[test]
fn verbs_write_the_same_modes_under_every_umask() {
    for umask in ["000", "002", "077"] {
        let bench = Bench::new();
        bench.write("draft.json", DRAFT);
        let script = "umask \"$1\" && \
            \"$0\" keys generate --kind ed25519 --out op.key --public-out op.pub && \
            \"$0\" keys generate --kind hmac --out gate.key && \
            \"$0\" keys generate --kind log --origin example.com/log --out log.key --public-out log.vkey && \
            \"$0\" keys trust --threshold 1 --out root.json op.pub && \
            \"$0\" registry sign draft.json --key op.key --out reg.json && \
            \"$0\" check --registry reg.json --trust-root root.json --agent bot --state mark.json --no-record < /dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_countersign"), umask]).current_dir(bench.folder());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{umask}: {output:?}");
        let mode = |name: &str| std::fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o777;
        for name in ["op.key", "gate.key", "log.key", "mark.json", "mark.json.lock"] {
            assert_eq!(mode(name), 0o600, "{name} under {umask}");
        }
        for name in ["op.pub", "log.vkey", "root.json", "reg.json"] {
            assert_eq!(mode(name), 0o644, "{name} under {umask}");
        }
    }
}

const DRAFT: &str = r#"{"format": "countersign-registry-1", "version": 1,
    "agents": [{"agent": "bot", "version": 1, "registered_by": "ops", "max_session": "1h", "output_tags": [],
                "tools": [{"server": "desk", "name": "search"}]}],
    "tools": [{"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
               "args_schema": {"type": "object"}}],
    "revoked": {"agents": [], "keys": [], "snapshots": []}}"#;
