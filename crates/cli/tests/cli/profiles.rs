#![cfg(unix)]

use crate::bench::Bench;
use crate::mcp::{Client, gateway};

/// Moves the files of a gateway into the profile `desk` of a home folder of its own.
fn profile() -> Bench {
    let bench = gateway();
    let folder = bench.path("home/countersign/profiles/desk");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["gateway.toml", "reg.json", "root.json", "gate.key", "log.key"] {
        std::fs::rename(bench.path(name), folder.join(name)).unwrap();
    }
    for name in ["home/countersign", "home/countersign/profiles", "home/countersign/profiles/desk"] {
        bench.mode(name, 0o700);
    }
    bench
}

fn command(bench: &Bench, line: &str) -> std::process::Command {
    let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("XDG_CONFIG_HOME", bench.path("home"));
    command
}

#[track_caller]
fn refused(bench: &Bench, line: &str) -> String {
    let output = command(bench, line).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_gateway_runs_under_a_profile() {
    let bench = profile();
    let mut client = Client::start_command(command(&bench, "mcp run --profile desk -- sh server.sh"));
    let refund = client.call("refund", serde_json::json!({"amount": 1}));
    assert_eq!(refund["_meta"]["dev.countersign/decision"]["code"], "APPROVAL_REQUIRED", "{refund}");
    for line in ["approve list --profile desk", "approve list"] {
        let listed = command(&bench, line).output().unwrap();
        assert!(String::from_utf8(listed.stdout).unwrap().contains("refund"), "{line}");
    }
}

#[test]
fn a_profile_that_others_can_open_runs_no_gateway() {
    let bench = profile();
    bench.mode("home/countersign/profiles/desk", 0o755);
    let err = refused(&bench, "mcp run --profile desk -- sh server.sh");
    assert!(err.contains("FILE_TOO_OPEN") && err.contains("chmod 700"), "{err}");
}

#[test]
fn an_unknown_or_missing_profile_runs_no_gateway() {
    let bench = profile();
    assert!(refused(&bench, "mcp run --profile disk -- sh server.sh").contains("PROFILE_UNKNOWN"));
    assert!(refused(&bench, "mcp run --profile ../x -- sh server.sh").contains("not a profile's name"));
    assert!(refused(&bench, "mcp run -- sh server.sh").contains("--profile"));
}
