//! Broken set-ups, each mended by the command that `doctor` prints.

#![cfg(unix)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::SERVER;

/// A client with one wrapped server, whose gateway has run.
struct Ward {
    bench: Bench,
    profile: PathBuf,
}

impl Ward {
    fn new() -> Self {
        let bench = Bench::new();
        bench.write("server.sh", SERVER);
        let entry = json!({"command": "sh", "args": [bench.path("server.sh")]});
        bench.write("mcp.json", json!({"mcpServers": {"desk": entry}}).to_string());
        let mut ward = Self { bench, profile: PathBuf::new() };
        ward.done("wrap mcp.json --yes");
        let profiles = std::fs::read_dir(ward.home("profiles")).unwrap();
        ward.profile = profiles.map(|entry| entry.unwrap().path()).next().unwrap();
        ward.is_well();
        ward
    }

    fn home(&self, name: &str) -> PathBuf {
        self.bench.path("home/countersign").join(name)
    }

    fn of_profile(&self, name: &str) -> PathBuf {
        self.profile.join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let folder = Path::new(env!("CARGO_BIN_EXE_countersign")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let home = self.bench.folder();
        command.current_dir(home).env("PATH", path).env("HOME", home);
        command.env("XDG_CONFIG_HOME", self.bench.path("home"));
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command("countersign").args(line.split_whitespace()).output().unwrap()
    }

    #[track_caller]
    fn done(&self, line: &str) {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    }

    /// Returns the faults that `doctor` finds.
    fn findings(&self) -> Vec<Value> {
        let output = self.run("doctor --json --client mcp.json");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = report["findings"].as_array().unwrap();
        assert!(!all.is_empty());
        let found: Vec<_> = all.iter().filter(|one| one["level"] != "ok").cloned().collect();
        assert_eq!(output.status.code(), Some(if found.is_empty() { 0 } else { 3 }), "{report}");
        found
    }

    #[track_caller]
    fn is_well(&self) {
        // The first look starts the gateway, which makes store and log.
        self.findings();
        assert_eq!(self.findings(), Vec::<Value>::new());
    }

    /// Finds the fault and runs its command. Then no fault is left.
    #[track_caller]
    fn mended(&self, code: &str) {
        let found = self.findings();
        let fault = found.iter().find(|one| one["code"] == code && one["mend"].is_string());
        let mend = fault.unwrap_or_else(|| panic!("{code}: {found:?}"))["mend"].as_str().unwrap();
        // A person answers `wrap` at the terminal; the tests have none.
        let mend = mend.replace("countersign wrap ", "countersign wrap --yes ");
        let output = self.command("sh").args(["-c", &mend]).output().unwrap();
        assert!(output.status.success(), "{mend}: {output:?}");
        self.is_well();
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Edits a text of the profile.
    fn edit(&self, name: &str, edit: impl FnOnce(String) -> String) {
        let path = self.of_profile(name);
        std::fs::write(&path, edit(std::fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// Signs the profile's draft with these options.
    fn sign(&self, key: &str, options: &str) {
        let [draft, out] = ["draft.json", "registry.json"].map(|name| self.of_profile(name));
        let (draft, out) = (draft.display(), out.display());
        self.done(&format!("registry sign {draft} --key {key} --force --out {out} {options}"));
    }

    fn operator_key(&self) -> String {
        self.home("operator.key").display().to_string()
    }
}

/// One test for each file whose mode is too open.
macro_rules! too_open {
    ($($name:ident: $file:expr, $mode:expr, $code:expr;)+) => {$(
        #[test]
        fn $name() {
            let ward = Ward::new();
            let file: fn(&Ward) -> PathBuf = $file;
            Ward::mode(&file(&ward), $mode);
            ward.mended($code);
        }
    )+};
}

too_open! {
    folder_open_to_others_is_mended: |ward| ward.home(""), 0o755, "FILE_TOO_OPEN";
    profile_open_to_others_is_mended: |ward| ward.of_profile(""), 0o750, "FILE_TOO_OPEN";
    operator_key_read_by_others_is_mended: |ward| ward.home("operator.key"), 0o644, "KEY_FILE_TOO_OPEN";
    approval_key_read_by_others_is_mended: |ward| ward.home("approval.key"), 0o640, "KEY_FILE_TOO_OPEN";
    log_key_read_by_others_is_mended: |ward| ward.home("log.key"), 0o604, "KEY_FILE_TOO_OPEN";
    trust_root_written_by_others_is_mended: |ward| ward.home("trust-root.json"), 0o664, "FILE_TOO_OPEN";
    configuration_written_by_others_is_mended: |ward| ward.of_profile("gateway.toml"), 0o620, "FILE_TOO_OPEN";
    registry_written_by_others_is_mended: |ward| ward.of_profile("registry.json"), 0o666, "FILE_TOO_OPEN";
    registry_state_written_by_others_is_mended: |ward| ward.of_profile("registry.state"), 0o660, "FILE_TOO_OPEN";
    record_state_written_by_others_is_mended: |ward| ward.of_profile("record.state"), 0o660, "FILE_TOO_OPEN";
    log_folder_that_is_read_only_is_mended: |ward| ward.of_profile("log"), 0o500, "FILE_UNWRITABLE";
    read_only_client_file_is_mended: |ward| ward.bench.path("mcp.json"), 0o444, "CLIENT_FILE_READ_ONLY";
}

#[test]
fn missing_approval_key_is_mended() {
    let ward = Ward::new();
    std::fs::remove_file(ward.home("approval.key")).unwrap();
    ward.mended("KEY_FILE_MISSING");
}

#[test]
fn missing_trust_root_is_mended() {
    let ward = Ward::new();
    std::fs::remove_file(ward.home("trust-root.json")).unwrap();
    ward.mended("FILE_MISSING");
}

#[test]
fn malformed_trust_root_is_mended() {
    let ward = Ward::new();
    std::fs::write(ward.home("trust-root.json"), "{}").unwrap();
    ward.mended("ROOT_MALFORMED");
}

#[test]
fn malformed_configuration_is_mended() {
    let ward = Ward::new();
    ward.edit("gateway.toml", |text| text + "\n[colour]\nred = true\n");
    ward.mended("CONFIG_MALFORMED");
    assert!(std::fs::read_to_string(ward.of_profile("gateway.toml.broken")).unwrap().contains("colour"));
}

#[test]
fn missing_registry_is_mended() {
    let ward = Ward::new();
    std::fs::remove_file(ward.of_profile("registry.json")).unwrap();
    ward.mended("FILE_MISSING");
}

#[test]
fn unsigned_registry_is_mended() {
    let ward = Ward::new();
    std::fs::copy(ward.of_profile("draft.json"), ward.of_profile("registry.json")).unwrap();
    ward.mended("REGISTRY_ENVELOPE");
}

#[test]
fn registry_of_another_key_is_mended() {
    let ward = Ward::new();
    ward.done("keys generate --kind ed25519 --out stranger.key");
    ward.sign("stranger.key", "--registry-version 2");
    ward.mended("REGISTRY_SIGNATURES");
}

#[test]
fn registry_that_expires_soon_is_mended() {
    let ward = Ward::new();
    ward.sign(&ward.operator_key(), "--registry-version 2 --ttl 1d");
    ward.mended("REGISTRY_EXPIRES");
}

#[test]
fn expired_registry_is_mended() {
    let ward = Ward::new();
    ward.sign(&ward.operator_key(), "--registry-version 2 --ttl 1ms");
    ward.mended("REGISTRY_STALE");
}

#[test]
fn registry_that_is_too_old_is_found() {
    let ward = Ward::new();
    ward.edit("gateway.toml", |text| text.replace("max_age = \"365d\"", "max_age = \"5s\""));
    std::thread::sleep(std::time::Duration::from_secs(5));
    let found = ward.findings();
    assert_eq!(found[0]["code"], "REGISTRY_STALE", "{found:?}");
    ward.edit("gateway.toml", |text| text.replace("max_age = \"5s\"", "max_age = \"365d\""));
    ward.is_well();
}

#[test]
fn rolled_back_registry_is_mended() {
    let ward = Ward::new();
    let old = std::fs::read(ward.of_profile("registry.json")).unwrap();
    ward.sign(&ward.operator_key(), "--registry-version 7 --ttl 365d");
    ward.is_well();
    std::fs::write(ward.of_profile("registry.json"), old).unwrap();
    ward.mended("REGISTRY_ROLLBACK");
}

#[test]
fn forked_registry_is_mended() {
    let ward = Ward::new();
    ward.sign(&ward.operator_key(), "--ttl 365d");
    ward.mended("REGISTRY_FORK");
}

#[test]
fn corrupt_registry_state_is_mended() {
    let ward = Ward::new();
    std::fs::write(ward.of_profile("registry.state"), "?").unwrap();
    ward.mended("REGISTRY_MARK_CORRUPT");
}

#[test]
fn corrupt_store_is_mended() {
    let ward = Ward::new();
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(ward.home(&format!("approvals.sqlite{end}")));
    }
    std::fs::write(ward.home("approvals.sqlite"), "not a database, but long enough to be looked at as one")
        .unwrap();
    ward.mended("STORE_CORRUPT");
}

#[test]
fn missing_store_is_mended() {
    let ward = Ward::new();
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(ward.home(&format!("approvals.sqlite{end}")));
    }
    ward.mended("STORE_MISSING");
}

/// Returns the first segment of the profile's log.
fn segment(ward: &Ward) -> PathBuf {
    let files = std::fs::read_dir(ward.of_profile("log")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).min().unwrap()
}

#[test]
fn log_with_a_changed_byte_is_mended() {
    let ward = Ward::new();
    let path = segment(&ward);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("UNDISCLOSED_TOOL", "UNDISCLOSED_TO0L", 1)).unwrap();
    ward.mended("AUDIT_CORRUPT");
}

#[test]
fn log_that_was_cut_is_mended() {
    let ward = Ward::new();
    let path = segment(&ward);
    let before = std::fs::read(&path).unwrap();
    ward.is_well();
    std::fs::write(&path, before).unwrap();
    ward.mended("AUDIT_ROLLED_BACK");
}

#[test]
fn log_that_was_deleted_is_mended() {
    let ward = Ward::new();
    std::fs::remove_dir_all(ward.of_profile("log")).unwrap();
    ward.mended("AUDIT_MISSING");
}

#[test]
fn malformed_record_state_is_mended() {
    let ward = Ward::new();
    std::fs::write(ward.of_profile("record.state"), "?").unwrap();
    ward.mended("AUDIT_STATE");
}

#[test]
fn entry_of_a_program_that_is_gone_is_mended() {
    let ward = Ward::new();
    let text = ward.bench.read("mcp.json");
    let gone = text.replace(env!("CARGO_BIN_EXE_countersign"), "/opt/gone/countersign");
    assert_ne!(text, gone);
    ward.bench.write("mcp.json", gone);
    ward.mended("ENTRY_PROGRAM");
}

#[test]
fn entry_without_its_profile_is_mended() {
    let ward = Ward::new();
    std::fs::remove_dir_all(&ward.profile).unwrap();
    ward.mended("PROFILE_UNKNOWN");
}

#[test]
fn entry_that_was_unwrapped_by_hand_is_mended() {
    let ward = Ward::new();
    let entry = json!({"command": "sh", "args": [ward.bench.path("server.sh")]});
    ward.bench.write("mcp.json", json!({"mcpServers": {"desk": entry}}).to_string());
    ward.mended("ENTRY_OPEN");
}

#[test]
fn faults_without_a_command_are_named() {
    let ward = Ward::new();
    let good = ward.bench.read("mcp.json");
    let fault = |text: &str, code: &str| {
        ward.bench.write("mcp.json", text);
        let found = ward.findings();
        assert!(found.iter().any(|one| one["code"] == code && one["mend"].is_null()), "{code}: {found:?}");
    };
    fault("{", "CLIENT_FILE_MALFORMED");
    fault(r#"{"mcpServers": {"odd": {"type": "stdio"}}}"#, "ENTRY_UNKNOWN");
    fault(&good.replace("\"sh\"", "\"/bin/false\""), "SERVER_ANSWER");
    ward.bench.write("mcp.json", &good);
    std::fs::remove_file(ward.home("log.key")).unwrap();
    let found = ward.findings();
    assert!(found.iter().any(|one| one["code"] == "KEY_FILE_MISSING" && one["mend"].is_null()), "{found:?}");
}

#[test]
fn faults_of_hooks_are_named() {
    let ward = Ward::new();
    std::fs::create_dir(ward.bench.path(".claude")).unwrap();
    let name = ward.profile.file_name().unwrap().to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_countersign");
    let settings = |program: &str, profile: &str, more: Value| {
        let command = format!("{program} hook --profile {profile} --host claude-code --host-timeout 600s");
        let mut hook = json!({"type": "command", "command": command});
        hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let all = json!({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}});
        ward.bench.write(".claude/settings.json", all.to_string());
        ward.findings().iter().map(|one| one["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let good = json!({"onFailure": "block", "timeout": 600});
    assert!(settings(program, name, good.clone()).is_empty());
    assert_eq!(settings(program, name, json!({"timeout": 600})), ["HOOK_FAILS_OPEN"]);
    assert_eq!(settings(program, name, json!({"onFailure": "block", "timeout": 60})), ["HOOK_TIMEOUT"]);
    assert_eq!(settings("/opt/gone/countersign", name, good.clone()), ["HOOK_PROGRAM"]);
    assert_eq!(settings(program, "other", good), ["PROFILE_UNKNOWN"]);
    ward.bench.write(".claude/settings.json", "{");
    assert_eq!(ward.findings()[0]["code"], "CLIENT_FILE_MALFORMED");
}

#[test]
fn doctor_of_one_configuration_starts_its_gateway() {
    let bench = crate::mcp::gateway();
    let run = bench.run("doctor --config gateway.toml -- sh server.sh");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("refuses and records a call"), "{run:?}");
    assert_eq!(bench.run("doctor --config missing.toml").code, 3);
    let run = bench.run("doctor --config gateway.toml -- false");
    assert!(run.code == 3 && run.out.contains("SERVER_ANSWER"), "{run:?}");
}

#[test]
fn doctor_looks_at_the_store_of_quarantines() {
    let bench = crate::mcp::gateway();
    crate::quarantine::signals(&bench, "on_drop = \"quarantine\"");
    let doctor = || bench.run("doctor --config gateway.toml --no-start").out;
    let told = doctor();
    assert!(told.contains("no store of quarantines yet: the gateway makes it"), "{told}");
    bench.ok("store init signals.sqlite");
    bench.ok("quarantine add --store signals.sqlite --agent bot --by ada");
    let told = doctor();
    assert!(told.contains("the store of quarantines opens; 1 agent in it"), "{told}");
    std::fs::set_permissions(bench.path("signals.sqlite"), Permissions::from_mode(0o666)).unwrap();
    let told = doctor();
    assert!(told.contains("STORE_TOO_OPEN") && told.contains("mend: chmod 600 "), "{told}");
    std::fs::set_permissions(bench.path("signals.sqlite"), Permissions::from_mode(0o600)).unwrap();
    bench.write("signals.sqlite", "not a database");
    let told = doctor();
    let mut lines = told.lines().skip_while(|line| !line.contains("STORE_CORRUPT"));
    assert!(lines.next().is_some_and(|line| line.contains("signals.sqlite")), "{told}");
    assert!(!lines.next().unwrap().contains("mend:"), "without it, the agent could call again: {told}");
}

#[test]
fn doctor_changes_nothing_without_a_start() {
    let ward = Ward::new();
    let before = ward.bench.snapshot();
    ward.done("doctor --no-start --client mcp.json");
    assert_eq!(ward.bench.snapshot(), before);
}
