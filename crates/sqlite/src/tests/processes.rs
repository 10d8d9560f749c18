use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use countersign_core::Millis;

use super::*;

const ROLE: &str = "COUNTERSIGN_SQLITE_TEST_ROLE";
const STORE: &str = "COUNTERSIGN_SQLITE_TEST_STORE";
const NUMBER: &str = "COUNTERSIGN_SQLITE_TEST_NUMBER";

/// This test binary, set up to run [`child`] in a role of its own.
fn command(role: &str, store: &Path, number: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::processes::child", "--ignored", "--nocapture"]);
    command.env(ROLE, role).env(STORE, store).env(NUMBER, number.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A running child and its output.
struct Running {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Self { child, said }
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word);
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the rest of its output after it has ended by itself.
    fn finish(mut self) -> Vec<String> {
        let lines = self.said.by_ref().lines().map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success(), "{lines:?}");
        lines
    }
}

#[test]
#[ignore = "the other end of the tests here: does nothing unless they start it"]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = PathBuf::from(std::env::var_os(STORE).unwrap());
    let number: usize = std::env::var(NUMBER).unwrap().parse().unwrap();
    match role.as_str() {
        "race" => race(&path, number),
        "run" => spend_then_run(&path, number),
        "fill" => fill(&path, number),
        "open" => match SqliteStore::open(&path, at(0)) {
            Ok(_) => eprintln!("opened"),
            Err(error) => eprintln!("{}", error.code()),
        },
        other => panic!("no role {other}"),
    }
}

/// Tries to spend all tokens and prints those that it spent.
fn race(path: &Path, tokens: usize) {
    let (store, keys) = (SqliteStore::open_with(path, at(0), Millis::from_secs(300)).unwrap(), keys());
    eprintln!("ready");
    while !path.with_extension("go").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let won = try_all(&store, &keys, tokens, std::process::id() as usize);
    won.into_iter().for_each(|n| eprintln!("{n}"));
}

fn try_all(store: &SqliteStore, keys: &RunKeys, tokens: usize, start: usize) -> Vec<usize> {
    let order = (0..tokens).map(|n| (n + start) % tokens);
    let got = |n: &usize| match spend(store, keys, &format!("t{n}")) {
        Ok(()) => true,
        Err(code) => {
            assert_eq!(code, "APPROVAL_SPENT");
            false
        }
    };
    order.filter(got).collect()
}

/// Runs the tool, whose side effect is a line in a file beside the store.
fn run_tool(path: &Path, number: usize) {
    use std::io::Write as _;
    let mut log =
        std::fs::OpenOptions::new().append(true).create(true).open(path.with_extension("runs")).unwrap();
    log.write_all(format!("{number}\n").as_bytes()).unwrap();
}

fn spend_then_run(path: &Path, number: usize) {
    let (store, keys) = (SqliteStore::open(path, at(0)).unwrap(), keys());
    eprintln!("ready");
    if spend(&store, &keys, &format!("t{number}")).is_ok() {
        eprintln!("spent");
        std::thread::sleep(Duration::from_millis(100));
        run_tool(path, number);
    }
    eprintln!("done");
}

/// Spends until the store refuses, then once more.
fn fill(path: &Path, most: usize) {
    let (store, keys) = (SqliteStore::open(path, at(0)).unwrap(), keys());
    let first = (0..most).find_map(|n| spend(&store, &keys, &format!("t{n}")).err().map(|code| (n, code)));
    let (spent, code) = first.unwrap_or((most, "none"));
    eprintln!("{spent} {code}");
    let refusal = spend_at(&store, &keys, "another", 60_000, 1_000).unwrap_err();
    eprintln!("{}", std::error::Error::source(&refusal).unwrap());
}

/// Races 8 threads and 4 processes for every token, and checks that each was spent once.
fn threads_and_processes_race(tokens: usize) {
    let (_folder, path) = place();
    let store = SqliteStore::open_with(&path, at(0), Millis::from_secs(300)).unwrap();
    let mut others: Vec<_> = (0..4).map(|_| Running::start(&mut command("race", &path, tokens))).collect();
    others.iter_mut().for_each(|other| other.wait_for("ready"));
    std::fs::write(path.with_extension("go"), "").unwrap();
    let mut won: Vec<usize> = std::thread::scope(|scope| {
        let store = &store;
        let racers: Vec<_> =
            (0..8).map(|n| scope.spawn(move || try_all(store, &keys(), tokens, tokens / 8 * n))).collect();
        racers.into_iter().flat_map(|racer| racer.join().unwrap()).collect()
    });
    for other in others {
        won.extend(other.finish().iter().map(|line| line.parse::<usize>().unwrap()));
    }
    won.sort_unstable();
    assert_eq!(won, (0..tokens).collect::<Vec<_>>());
}

#[test]
fn replay_by_threads_and_processes_spends_each_token_once() {
    threads_and_processes_race(300);
}

#[test]
#[ignore = "takes a minute; run by name"]
fn ten_thousand_raced_tokens_are_each_spent_once() {
    threads_and_processes_race(10_000);
}

/// Kills a process before, during or after its spend, but never during its run; then tries the same token again.
fn kill_between_spend_and_run(rounds: usize) {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    let runs = |number: usize| {
        let log = std::fs::read_to_string(path.with_extension("runs")).unwrap_or_default();
        log.lines().filter(|line| **line == number.to_string()).count()
    };
    for number in 0..rounds {
        let mut victim = Running::start(&mut command("run", &path, number));
        victim.wait_for("ready");
        let cut = number % 4;
        match cut {
            0 => std::thread::sleep(Duration::from_micros(37 * (number as u64 % 64))),
            1 => victim.wait_for("spent"),
            2 => {
                victim.wait_for("spent");
                std::thread::sleep(Duration::from_millis(number as u64 % 40));
            }
            _ => {
                victim.wait_for("spent");
                victim.wait_for("done");
            }
        }
        victim.kill();
        let ran = runs(number);
        let again = spend(&store, &keys, &format!("t{number}"));
        match cut {
            // Killed during the spend: the spend may have counted or not, and the tool did not run.
            0 => assert_eq!(ran, 0),
            1 | 2 => assert_eq!((ran, again), (0, Err("APPROVAL_SPENT"))),
            _ => assert_eq!((ran, again), (1, Err("APPROVAL_SPENT"))),
        }
        if again.is_ok() {
            run_tool(&path, number);
        }
        let mut replay = Running::start(&mut command("run", &path, number));
        replay.wait_for("ready");
        replay.wait_for("done");
        replay.finish();
        assert!(runs(number) <= 1, "token {number} ran twice");
    }
}

#[test]
fn replay_after_a_kill_between_spend_and_run_never_runs_twice() {
    kill_between_spend_and_run(20);
}

#[test]
#[ignore = "takes half a minute; run by name"]
fn two_hundred_kills_never_cause_a_second_run() {
    kill_between_spend_and_run(200);
}

#[test]
fn four_processes_open_a_new_store_at_once() {
    for _ in 0..5 {
        let (_folder, path) = place();
        let openers: Vec<_> = (0..4).map(|_| Running::start(&mut command("open", &path, 0))).collect();
        for opener in openers {
            assert_eq!(opener.finish(), ["opened"]);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_closes_the_store_until_it_is_reopened() {
    let (_folder, path) = place();
    let (_, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    // No file may grow above 200 blocks of 512 bytes; a write beyond that is an error instead of a signal.
    let inner = command("fill", &path, 1_000);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""]).arg(inner.get_program());
    limited.args(inner.get_args()).stdout(Stdio::null()).stderr(Stdio::piped());
    limited.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = Running::start(&mut limited).finish();
    let (spent, code) = said[0].split_once(' ').unwrap();
    let spent: usize = spent.parse().unwrap();
    assert_eq!(code, "STORE_UNAVAILABLE");
    assert_eq!(said[1], "store stopped by an earlier failure: reopen it");
    assert!(spent > 3 && spent < 1_000, "{spent}");
    let store = SqliteStore::open(&path, at(0)).unwrap();
    for n in 0..spent {
        assert_eq!(spend(&store, &keys, &format!("t{n}")), Err("APPROVAL_SPENT"));
    }
    assert_eq!(spend(&store, &keys, "fresh"), Ok(()));
}

/// Runs a child as a user to whom permissions apply: root bypasses them.
#[cfg(target_os = "linux")]
fn open_as_nobody(path: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::CommandExt as _;
    let mut command = command("open", path, 0);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        let folder = path.parent().unwrap();
        for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            std::os::unix::fs::chown(file, Some(65_534), Some(65_534)).unwrap();
        }
        std::os::unix::fs::chown(folder, Some(65_534), Some(65_534)).unwrap();
        command.uid(65_534).gid(65_534);
    }
    Running::start(&mut command).finish()
}

#[cfg(target_os = "linux")]
#[test]
fn an_unwritable_folder_or_file_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let chmod = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let (folder, path) = place();
    chmod(folder.path(), 0o500);
    assert_eq!(open_as_nobody(&path), ["STORE_READ_ONLY"]);
    chmod(folder.path(), 0o700);
    drop(SqliteStore::open(&path, at(0)).unwrap());
    assert_eq!(open_as_nobody(&path), ["opened"]);
    chmod(&path, 0o400);
    assert_eq!(open_as_nobody(&path), ["STORE_READ_ONLY"]);
    chmod(&path, 0o000);
    assert_eq!(open_as_nobody(&path), ["STORE_READ_ONLY"]);
    chmod(&path, 0o600);
    chmod(folder.path(), 0o500);
    assert_eq!(open_as_nobody(&path), ["STORE_READ_ONLY"]);
    chmod(folder.path(), 0o700);
}
