//! Temporary folder in which the tests run the binary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The `[record]` part of a configuration, for the key of [`Bench::log_key`].
pub(crate) const RECORD: &str =
    "[record]\nfolder = \"log\"\nkey_file = \"log.key\"\norigin = \"example.com/log\"\n";

/// The same settings as command-line options.
pub(crate) const RECORD_OPTIONS: &str = "--record log --record-key log.key --record-origin example.com/log";

/// Temporary folder, deleted at the end of the test.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

/// Result of one run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let is_new = !self.path(name).exists();
        std::fs::write(self.path(name), bytes).unwrap();
        // why: a file that its group may write is refused, and the umask may allow that.
        #[cfg(unix)]
        if is_new {
            self.mode(name, 0o644);
        }
        #[cfg(not(unix))]
        let _ = is_new;
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Generates a log key, `log.key`, and its public half, `log.vkey`.
    pub(crate) fn log_key(&self) {
        self.ok("keys generate --kind log --origin example.com/log --out log.key --public-out log.vkey");
    }

    /// Deletes the state of the log in `log`: a test that replaces the log stands for an attacker who can replace both.
    pub(crate) fn forget_log_state(&self) {
        std::fs::remove_file(self.path("log.state")).unwrap();
    }

    /// Verifies the log in `log` and returns the summary of `audit verify`: its number of entries and more.
    #[track_caller]
    pub(crate) fn verified(&self) -> Value {
        self.run("audit verify log --key log.vkey --json").value()["summary"].clone()
    }

    /// Returns the entries of that log.
    #[track_caller]
    pub(crate) fn entries(&self) -> Vec<Value> {
        let run = self.run("audit show log --json");
        assert_eq!(run.code, 0, "{run:?}");
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[cfg(unix)]
    pub(crate) fn mode(&self, name: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns names and digests of all files in the folder and below, to show that a refused run changed nothing. Skips SQLite's
    /// shared memory, which every reader touches.
    pub(crate) fn snapshot(&self) -> Vec<(String, String)> {
        let (mut folders, mut files) = (vec![self.folder().to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
                let name = entry.path().strip_prefix(self.folder()).unwrap().display().to_string();
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() && !name.ends_with("-shm") {
                    files.push((
                        name,
                        format!("{:02x?}", Sha256::digest(std::fs::read(entry.path()).unwrap())),
                    ));
                }
            }
        }
        files.sort();
        files
    }

    /// Returns the binary as a command that runs in the folder.
    pub(crate) fn command<S: AsRef<str>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.args(args.iter().map(AsRef::as_ref)).current_dir(self.folder());
        command
    }

    /// Runs without input. Splits the arguments at whitespace.
    pub(crate) fn run(&self, line: &str) -> Run {
        self.run_args(&line.split_whitespace().collect::<Vec<_>>(), "")
    }

    /// Runs without input in a folder below. Splits the arguments at whitespace.
    pub(crate) fn within(&self, folder: &str, line: &str) -> Run {
        let args: Vec<_> = line.split_whitespace().collect();
        let output = self.command(&args).current_dir(self.path(folder)).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let err = unannounced(&text(output.stderr));
        Run { code: output.status.code().unwrap(), out: text(output.stdout), err }
    }

    /// Runs with input. Splits the arguments at whitespace.
    pub(crate) fn feed(&self, line: &str, input: &str) -> Run {
        self.run_args(&line.split_whitespace().collect::<Vec<_>>(), input)
    }

    /// Runs as [`Bench::run_loud`] does, and leaves out the line that announces a log.
    pub(crate) fn run_args<S: AsRef<str>>(&self, args: &[S], input: &str) -> Run {
        let run = self.run_loud(args, input);
        Run { err: unannounced(&run.err), ..run }
    }

    /// Runs with input and returns all of standard error.
    pub(crate) fn run_loud<S: AsRef<str>>(&self, args: &[S], input: &str) -> Run {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A run that reads no input closes the pipe early. That is no failure.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Run {
            code: output.status.code().expect("no signal ended it"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn ok(&self, line: &str) -> String {
        self.run(line).done()
    }

    /// Endorses with these options and returns the list. Standard error shows the signed content.
    pub(crate) fn endorse(&self, options: &str) -> String {
        let run = self.run(&format!("proposal endorse {options}"));
        assert_eq!(run.code, 0, "{run:?}");
        run.out
    }

    /// Runs a command that must fail with this exit code and error code, print one line and change no file.
    pub(crate) fn fails(&self, line: &str, exit: i32, code: &str) {
        self.fails_with(&line.split_whitespace().collect::<Vec<_>>(), "", exit, code);
    }

    pub(crate) fn fails_with<S: AsRef<str>>(&self, args: &[S], input: &str, exit: i32, code: &str) {
        let shown: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        let before = self.snapshot();
        let run = self.run_args(&shown, input);
        assert_eq!(run.code, exit, "{shown:?}: {run:?}");
        assert!(run.err.starts_with(&format!("error {code}: ")), "{shown:?}: {run:?}");
        assert_eq!(run.err.lines().count(), 1, "{shown:?}: {run:?}");
        assert!(!run.err.contains("panicked"), "{shown:?}: {run:?}");

        let json: Vec<_> = ["--json"].into_iter().chain(shown.iter().copied()).collect();
        let told = self.run_args(&json, input);
        assert_eq!(told.code, exit, "{shown:?} --json: {told:?}");
        let last: Value = serde_json::from_str(told.out.lines().last().unwrap()).unwrap();
        assert_eq!(last["ok"], false, "{shown:?} --json: {told:?}");
        assert_eq!(last["error"]["code"], code, "{shown:?} --json: {told:?}");
        assert_eq!(self.snapshot(), before, "{shown:?}: a file changed");
    }
}

impl Run {
    /// Returns the output of a run that must have succeeded.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        assert_eq!(self.err, "", "{self:?}");
        self.out
    }

    /// Returns the output of a successful run as JSON.
    #[track_caller]
    pub(crate) fn value(self) -> Value {
        let text = self.done();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Returns standard error without the line that announces a new or adopted log.
pub(crate) fn unannounced(err: &str) -> String {
    let is_announced = |line: &&str| line.starts_with("log `") && line.contains(", its state is kept in `");
    err.split_inclusive('\n').filter(|line| !is_announced(line)).collect()
}

/// Reads in a thread, so that a test whose line never comes fails and does not hang.
pub(crate) fn lines_of(from: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
