//! Acceptance rates of a log, once and with `--watch`.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use countersign_audit_log::AuditSink as _;
use countersign_core::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::audit::{FIVE, decision, log, record};
use crate::bench::{Bench, lines_of};

#[test]
fn stats_count_by_agent_and_leave_waiting_calls_out_of_the_rate() {
    let bench = Bench::new();
    record(&bench, &FIVE);
    let report = bench.run("stats log --json").value();
    let a = &report["agents"]["a"];
    assert_eq!((a["accepted"].as_u64(), a["rejected"].as_u64()), (Some(2), Some(2)));
    assert_eq!(a["undisclosed_attempts"], 1);
    assert_eq!(a["rejected_by_code"]["APPROVAL_REQUIRED"], 1);
    assert!((a["acceptance_rate"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(report["agents"]["b"]["acceptance_rate"].as_f64(), Some(0.0));
    assert_eq!(report["total"]["accepted"], 2);
    let table = bench.ok("stats log");
    assert!(table.contains("66.7%") && table.contains("UNDISCLOSED_TOOL 1"), "{table}");
}

#[test]
fn stats_of_no_decisions_have_no_rate() {
    let bench = Bench::new();
    record(&bench, &[]);
    assert_eq!(bench.run("stats log --json").value()["total"]["acceptance_rate"], Value::Null);
}

#[test]
fn stats_refuse_a_missing_or_corrupt_log() {
    let bench = Bench::new();
    bench.fails("stats missing", 1, "AUDIT_UNAVAILABLE");
    std::fs::create_dir(bench.path("log")).unwrap();
    bench.fails("stats log", 1, "AUDIT_UNAVAILABLE");
    for text in ["garbage\n", "{\"a\":1}\n", "\0\0\0\n", "{\"seq\":2,\"type\":\"dec\n"] {
        bench.write("log/000000000001.jsonl", text);
        bench.fails("stats log", 1, "AUDIT_CORRUPT");
    }
    // A last line without a newline is still being written, or was torn.
    bench.write("log/000000000001.jsonl", "{\"seq\":1,\"type\":\"dec");
    assert_eq!(bench.run("stats log --json").value()["total"]["accepted"], 0);
}

#[test]
fn stats_table_is_by_agent_or_tool() {
    let bench = Bench::new();
    record(&bench, &[("a", None), ("a", Some("ARGS_SCHEMA")), ("a", Some("ARGS_SCHEMA")), ("b", None)]);
    let by_agent = bench.ok("stats log");
    assert!(by_agent.starts_with("agent ") && by_agent.contains("  24%  "), "{by_agent}");
    let by_tool = bench.ok("stats log --by tool");
    assert!(by_tool.starts_with("tool ") && by_tool.contains("\ndesk:search "), "{by_tool}");
    let strict = "stats log --baseline 0.99 --dropped 0.5 --decisions 10";
    let raised = bench.ok(strict);
    assert!(raised.contains("  raised 2023-11-14T22:13:20.001Z at 2  "), "{raised}");
    let told = bench.run(&format!("{strict} --json")).value();
    assert_eq!(told["agents"]["a"]["alarm"]["raised"], json!({"time": 1_700_000_000_001_u64, "seq": 2}));
    assert_eq!(told["alarm_rule"], json!({"baseline": 0.99, "dropped": 0.5, "decisions": 10}));
    assert_eq!(told["agents"]["b"]["alarm"]["raised"], Value::Null);
    assert_eq!(told["tools"]["desk:search"]["accepted"], 2);
}

#[test]
fn since_leaves_out_older_entries() {
    let bench = Bench::new();
    record(&bench, &FIVE);
    let accepted = |when: &str| {
        bench.run(&format!("stats log --json --since {when}")).value()["total"]["accepted"].clone()
    };
    assert_eq!(accepted("2023-11-14T22:13:20.001Z"), 1);
    assert_eq!(accepted("2023-11-14T23:13:20+01:00"), 2);
    assert_eq!(accepted("1h"), 0);
    assert_eq!(accepted("36500d"), 2);
}

#[test]
fn options_of_stats_that_cannot_be_meant_are_wrong_usage() {
    let bench = Bench::new();
    record(&bench, &FIVE);
    for options in [
        "--since yesterday",
        "--since -1h",
        "--by session",
        "--baseline 0.5 --dropped 0.9",
        "--baseline NaN",
        "--decisions 1",
        "--interval 1s",
        "--watch --by tool",
        "--watch --interval 1ms",
        "--watch --interval 2d",
    ] {
        bench.fails(&format!("stats log {options}"), 2, "USAGE");
    }
    bench.fails("stats missing --watch", 1, "AUDIT_UNAVAILABLE");
    std::fs::create_dir(bench.path("empty")).unwrap();
    bench.fails("stats empty --watch", 1, "AUDIT_UNAVAILABLE");
}

fn now() -> u64 {
    SystemClock::new().now().unwrap().as_millis()
}

fn next(from: &Receiver<String>, what: &str) -> String {
    for _ in 0..200 {
        let line = from.recv_timeout(Duration::from_secs(30)).expect("a line");
        if line.contains(what) {
            return line;
        }
    }
    panic!("no line has {what:?}");
}

#[test]
fn piped_watch_prints_a_line_for_each_interval() {
    let bench = Bench::new();
    record(&bench, &FIVE);
    let log = log(&bench);
    for json in [false, true] {
        let line = format!("stats log --watch --interval 1s {}", if json { "--json" } else { "" });
        let mut child = bench
            .command(&line.split_whitespace().collect::<Vec<_>>())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let from = lines_of(child.stdout.take().unwrap());
        let first = next(&from, "");
        log.record(&decision(now(), "late", None)).unwrap();
        let later = next(&from, "late");
        if json {
            let first: Value = serde_json::from_str(&first).unwrap();
            assert_eq!(
                (&first["agents"]["a"]["accepted"], &first["agents"]["a"]["decided"]),
                (&json!(2), &json!(3))
            );
            let later: Value = serde_json::from_str(&later).unwrap();
            assert_eq!(later["agents"].as_object().unwrap().len(), 1, "{later}");
            assert_eq!(later["agents"]["late"]["acceptance_rate"], 1.0);
        } else {
            assert!(first.contains("Z  a 66.7% (2 of 3, alarm 9%); b 0.0% (0 of 1, alarm 12%)"), "{first}");
            assert!(later.ends_with("Z  late 100.0% (1 of 1, alarm 0%)"), "{later}");
        }
        assert!(!first.contains('\u{1b}') && !later.contains('\u{1b}'));
        drop(from);
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]), "{ended:?}");
    }
}

/// Runs a command in a pseudo terminal of this many columns and rows and copies its output. Each line of input presses Ctrl-C;
/// at the end it prints the exit code. The command gets the default SIGINT handler: an inherited ignored SIGINT would make
/// Ctrl-C a no-op. After two minutes an alarm ends the script, and with its terminal the command.
#[cfg(target_os = "linux")]
const TERMINAL: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios
signal.alarm(120)
size = struct.pack("HHHH", int(sys.argv[2]), int(sys.argv[1]), 0, 0)
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSWINSZ, size)
    os.execv(sys.argv[3], sys.argv[3:])
while True:
    ready, _, _ = select.select([terminal, 0], [], [])
    if 0 in ready:
        if not os.read(0, 100):
            break
        os.write(terminal, b"\x03")
    if terminal in ready:
        try:
            os.write(1, os.read(terminal, 65536))
        except OSError:
            break
_, status = os.waitpid(pid, 0)
os.write(1, b"ended %d\n" % os.waitstatus_to_exitcode(status))
"#;

/// `stats --watch` in a terminal. Ends with the test.
#[cfg(target_os = "linux")]
struct Terminal {
    child: Child,
    keys: ChildStdin,
    from: Receiver<String>,
}

#[cfg(target_os = "linux")]
impl Terminal {
    fn start(bench: &Bench, columns: u16, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", TERMINAL, &columns.to_string(), "10", env!("CARGO_BIN_EXE_countersign")])
            .args(["stats", "log", "--watch", "--interval", "1h"])
            .current_dir(bench.folder())
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let from = lines_of(child.stdout.take().unwrap());
        Self { keys: child.stdin.take().unwrap(), child, from }
    }

    /// Presses Ctrl-C. Returns the remaining lines and the exit line.
    fn interrupt(mut self) -> (Vec<String>, String) {
        self.keys.write_all(b"\n").unwrap();
        let mut lines: Vec<_> = self.from.iter().collect();
        assert!(self.child.wait().unwrap().success());
        let ended = lines.pop().unwrap();
        (lines, ended)
    }
}

#[cfg(target_os = "linux")]
#[test]
fn watch_in_a_terminal_redraws_on_each_entry() {
    let bench = Bench::new();
    let log = log(&bench);
    for code in [None, Some("ARGS_SCHEMA")] {
        log.record(&decision(now(), "first", code)).unwrap();
    }
    let terminal = Terminal::start(&bench, 50, &[]);
    let heading = next(&terminal.from, "accepted in each 1h");
    assert!(
        !heading.contains("\u{1b}[1A") && !heading.contains("\u{1b}[2A"),
        "nothing to go over yet: {heading:?}"
    );
    let row = next(&terminal.from, "first");
    assert!(row.starts_with("first  ") && row.ends_with("▅   50.0%  alarm 12%\u{1b}[K"), "{row:?}");
    assert_eq!(row.trim_end_matches("\u{1b}[K").chars().count(), 47, "{row:?}");
    log.record(&decision(now(), "second", None)).unwrap();
    let heading = next(&terminal.from, "accepted in each 1h");
    assert!(heading.starts_with("\u{1b}[J\u{1b}[2A\r"), "over both lines: {heading:?}");
    assert!(next(&terminal.from, "first").starts_with("first   "));
    assert!(next(&terminal.from, "second").ends_with("█  100.0%  alarm 0%\u{1b}[K"));
    let (rest, ended) = terminal.interrupt();
    // The only further output is the terminal's echo of the key.
    assert_eq!((rest, ended.trim_start_matches("\u{1b}[J")), (vec![], "^Cended -2"));
}

#[cfg(target_os = "linux")]
#[test]
fn raised_row_is_red_only_where_colour_is_wanted() {
    let bench = Bench::new();
    record(&bench, &[("a", Some("ARGS_SCHEMA")); 12]);
    let row = |environment| {
        let terminal = Terminal::start(&bench, 80, environment);
        let row = next(&terminal.from, "raised");
        terminal.interrupt();
        row
    };
    let red = row(&[]);
    assert!(red.starts_with("\u{1b}[31ma  ") && red.ends_with("raised\u{1b}[0m\u{1b}[K"), "{red:?}");
    let plain = row(&[("NO_COLOR", "1")]);
    assert!(plain.starts_with("a  ") && plain.ends_with("raised\u{1b}[K"), "{plain:?}");
    let dumb = row(&[("TERM", "dumb")]);
    assert!(dumb.contains("Z  a 0.0% (0 of 12, raised)") && !dumb.contains('\u{1b}'), "{dumb:?}");
}
