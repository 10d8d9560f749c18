//! One test for each attack on the path of evidence, named after it, on real files.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use countersign_core::{Digest, Millis};
use tempfile::TempDir;

use super::clocks::{ActingClock, budget};
use crate::{EvidenceBudget, EvidenceFolder, EvidenceResolver, ResolveError, ResolvedEvidence};

const INSIDE: &[u8] = b"what lies inside";
const SECRET: &[u8] = b"what lies outside";
const MEBI: u64 = 1 << 20;

/// A folder `root` with evidence, beside a folder with a secret.
struct Place {
    _dir: TempDir,
    root: PathBuf,
    secret: PathBuf,
    folder: EvidenceFolder,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir_all(root.join("inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        let secret = outside.join("invoice.txt");
        fs::write(&secret, SECRET).unwrap();
        for name in ["invoice.txt", "inner/invoice.txt"] {
            fs::write(root.join(name), INSIDE).unwrap();
            age(&root.join(name));
        }
        let folder = EvidenceFolder::open(&root).unwrap();
        Self { _dir: dir, root, secret, folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn read(&self, name: &str) -> Result<ResolvedEvidence, ResolveError> {
        read(&self.folder, name)
    }

    /// Code of the refusal of a name, after checking that other names are accepted.
    fn refusal(&self, name: &str) -> &'static str {
        assert_eq!(self.read("invoice.txt").unwrap().bytes(), INSIDE);
        self.read(name).unwrap_err().code()
    }

    /// Reads while `act` runs at the given reading of the clock. The first reading is at the start of the budget; one
    /// precedes each folder and each piece of the file, the last point at which a file can be swapped undetected.
    fn read_while(
        &self,
        name: &str,
        question: u64,
        act: impl Fn() + Send + Sync,
    ) -> Result<ResolvedEvidence, ResolveError> {
        let clock = ActingClock::new(|asked| {
            if asked == question {
                act();
            }
            1_000
        });
        let mut budget = EvidenceBudget::start(&clock, MEBI, MEBI, Millis::from_millis(500)).unwrap();
        let outcome = self.folder.resolve(&format!("file://{name}"), &mut budget);
        assert!(clock.asked() > question, "it was done");
        outcome
    }
}

fn read(folder: &EvidenceFolder, name: &str) -> Result<ResolvedEvidence, ResolveError> {
    folder.resolve(&format!("file://{name}"), &mut budget(MEBI, MEBI))
}

/// Sets an old modification time, so that a write within this clock tick shows.
fn age(path: &Path) {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

/// Stops the other threads when this one ends, also on a panic.
pub(super) struct Done<'a>(pub(super) &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn device(path: &str) -> u64 {
    fs::metadata(path).unwrap().dev()
}

#[test]
fn a_plain_file_is_read_at_every_depth() {
    let place = Place::new();
    for name in ["invoice.txt", "inner/invoice.txt"] {
        let read = place.read(name).unwrap();
        assert_eq!((read.bytes(), read.digest()), (INSIDE, Digest::of(INSIDE)));
    }
    let deep = vec!["d"; 31].join("/");
    fs::create_dir_all(place.at(&deep)).unwrap();
    fs::write(place.at(&deep).join("x"), "deep").unwrap();
    assert_eq!(place.read(&format!("{deep}/x")).unwrap().bytes(), b"deep");
}

#[test]
fn a_reference_outside_of_the_grammar_opens_nothing() {
    let place = Place::new();
    let absolute = place.secret.to_str().unwrap();
    let (plain, full) = (format!("file:///{absolute}"), format!("file://{absolute}"));
    fs::write(place.at("%2e%2e"), INSIDE).unwrap();
    fs::write(place.at("a\\b"), INSIDE).unwrap();
    fs::write(place.at("a?b#c:d@e"), INSIDE).unwrap();
    for reference in [
        "file://../outside/invoice.txt",
        "file://inner/../invoice.txt",
        "file://./invoice.txt",
        &plain,
        &full,
        "file://%2e%2e",
        "file://a\\b",
        "file://invoice.txt\0",
        "file://a?b#c:d@e",
        "file://invoice.txt?x",
        "file://invoice.txt#x",
        "file://user@host/invoice.txt",
        "file://host:1/invoice.txt",
        "http://invoice.txt",
        "FILE://invoice.txt",
        "invoice.txt",
        "file://inner//invoice.txt",
        "file://inner/invoice.txt/",
        "file://",
        "file:/invoice.txt",
    ] {
        let outcome = place.folder.resolve(reference, &mut budget(MEBI, MEBI));
        assert!(matches!(outcome, Err(ResolveError::Reference)), "{reference:?}: {outcome:?}");
    }
}

#[test]
fn nothing_there_is_not_found() {
    let place = Place::new();
    for name in ["missing", "missing/invoice.txt", "inner/missing", "localhost/invoice.txt"] {
        assert_eq!(place.refusal(name), "EVIDENCE_NOT_FOUND", "{name}");
    }
}

#[test]
fn link_to_a_file_is_refused() {
    let place = Place::new();
    let targets = [
        ("out", place.secret.clone()),
        ("in", "invoice.txt".into()),
        ("up", "../outside/invoice.txt".into()),
    ];
    for (name, target) in targets {
        symlink(&target, place.at(name)).unwrap();
        assert!(fs::read(place.at(name)).is_ok(), "it leads somewhere");
        assert_eq!(place.refusal(name), "EVIDENCE_NOT_PLAIN", "{name}");
    }
    symlink("itself", place.at("itself")).unwrap();
    symlink("nowhere", place.at("dangling")).unwrap();
    assert_eq!(place.refusal("itself"), "EVIDENCE_NOT_PLAIN");
    assert_eq!(place.refusal("dangling"), "EVIDENCE_NOT_PLAIN");
}

#[test]
fn link_to_a_folder_is_refused() {
    let place = Place::new();
    for (name, target) in
        [("out", place.secret.parent().unwrap()), ("in", Path::new("inner")), ("here", Path::new("."))]
    {
        symlink(target, place.at(name)).unwrap();
        let name = format!("{name}/invoice.txt");
        assert!(fs::read(place.at(&name)).is_ok(), "it leads somewhere");
        assert_eq!(place.refusal(&name), "EVIDENCE_NOT_PLAIN", "{name}");
    }
}

#[test]
fn a_hard_link_is_refused_under_each_of_its_names() {
    let place = Place::new();
    fs::hard_link(&place.secret, place.at("second")).unwrap();
    assert_eq!(place.refusal("second"), "EVIDENCE_NOT_PLAIN");
    fs::hard_link(place.at("inner/invoice.txt"), place.at("inner/other")).unwrap();
    assert_eq!(place.refusal("inner/invoice.txt"), "EVIDENCE_NOT_PLAIN");
    fs::remove_file(place.at("inner/other")).unwrap();
    assert!(place.read("inner/invoice.txt").is_ok(), "with one name it is plain again");
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_other_end() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.at("pipe")).status().unwrap().success());
    assert_eq!(place.refusal("pipe"), "EVIDENCE_NOT_PLAIN");
    assert_eq!(place.refusal("pipe/invoice.txt"), "EVIDENCE_NOT_PLAIN");
    let mut both_ends = File::options().read(true).write(true).open(place.at("pipe")).unwrap();
    both_ends.write_all(SECRET).unwrap();
    assert_eq!(place.refusal("pipe"), "EVIDENCE_NOT_PLAIN");
}

#[test]
fn a_socket_is_refused() {
    let place = Place::new();
    let _listener = UnixListener::bind(place.at("socket")).unwrap();
    assert_eq!(place.refusal("socket"), "EVIDENCE_NOT_PLAIN");
}

#[test]
fn a_device_is_refused_and_not_read() {
    let folder = EvidenceFolder::open("/dev").unwrap();
    for name in ["null", "zero", "urandom"] {
        assert!(matches!(read(&folder, name), Err(ResolveError::NotPlain)), "{name}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn virtual_kernel_file_is_refused() {
    let folder = EvidenceFolder::open("/proc/self").unwrap();
    for name in ["status", "environ", "cmdline", "maps"] {
        assert!(!fs::read(format!("/proc/self/{name}")).unwrap().is_empty());
        assert!(matches!(read(&folder, name), Err(ResolveError::Changed)), "{name}");
    }
    for name in ["exe", "cwd/Cargo.toml", "root/etc/passwd", "fd/0"] {
        assert!(matches!(read(&folder, name), Err(ResolveError::NotPlain)), "{name}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn another_mount_is_refused_at_the_folder_where_it_begins() {
    let folder = EvidenceFolder::open("/").unwrap();
    for (mount, file) in [("proc", "proc/version"), ("dev", "dev/null"), ("sys", "sys/kernel/notes")] {
        assert_ne!(device(&format!("/{mount}")), device("/"), "it is a mount");
        assert!(matches!(read(&folder, file), Err(ResolveError::NotPlain)), "{mount}");
    }
    assert!(
        matches!(read(&folder, "proc/missing"), Err(ResolveError::NotPlain)),
        "nothing is asked of the other mount"
    );
    let shared = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = shared.path().join("invoice.txt");
    fs::write(&file, INSIDE).unwrap();
    assert!(matches!(
        read(&folder, file.to_str().unwrap().trim_start_matches('/')),
        Err(ResolveError::NotPlain)
    ));
    let within = EvidenceFolder::open("/dev/shm").unwrap();
    let name = file.strip_prefix("/dev/shm").unwrap().to_str().unwrap();
    assert_eq!(read(&within, name).unwrap().bytes(), INSIDE, "within one mount it is plain");
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_of_another_device_than_its_folder_is_refused() {
    let mut place = Place::new();
    assert!(place.read("invoice.txt").is_ok());
    // Mounting one file over another needs privileges that a test lacks; so the root is reported to be on another
    // device.
    place.folder.device = device("/proc/self");
    assert!(matches!(place.read("invoice.txt"), Err(ResolveError::NotPlain)));
}

#[test]
fn a_file_that_grows_while_it_is_read_is_stopped_by_counting() {
    let place = Place::new();
    let path = place.at("growing");
    fs::write(&path, INSIDE).unwrap();
    let clock = ActingClock::new(|_| {
        File::options().append(true).open(&path).unwrap().write_all(&[b'x'; 100_000]).unwrap();
        1_000
    });
    let mut budget = EvidenceBudget::start(&clock, MEBI, 2 * MEBI, Millis::from_millis(500)).unwrap();
    let outcome = place.folder.resolve("file://growing", &mut budget);
    assert!(matches!(outcome, Err(ResolveError::TooLarge)), "{outcome:?}");
    assert!(clock.asked() <= 20, "stopped soon after the limit");
}

#[test]
fn growing_file_is_read_whole_or_refused() {
    let place = Place::new();
    let path = place.at("growing");
    fs::write(&path, INSIDE).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _at_the_end = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let mut file = File::options().append(true).open(&path).unwrap();
                file.write_all(b"one more line of text that is longer than the rest").unwrap();
            }
        });
        let refusal = loop {
            match place.read("growing") {
                Ok(read) => {
                    assert!(read.bytes().starts_with(INSIDE) && read.digest() == Digest::of(read.bytes()))
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(refusal, ResolveError::Changed | ResolveError::TooLarge), "{refusal:?}");
    });
}

#[test]
fn a_sparse_file_of_a_gibibyte_is_stopped_by_counting() {
    let place = Place::new();
    File::create(place.at("sparse")).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(place.refusal("sparse"), "EVIDENCE_TOO_LARGE");
    assert!(matches!(
        place.folder.resolve("file://sparse", &mut budget(u64::MAX, MEBI)),
        Err(ResolveError::Budget)
    ));
}

#[test]
fn a_file_that_is_swapped_between_check_and_use_is_refused() {
    for swap in ["file", "link", "name", "nothing"] {
        let place = Place::new();
        let outcome = place.read_while("invoice.txt", 1, || {
            let staged = place.at("staged");
            match swap {
                "file" => fs::write(&staged, SECRET).unwrap(),
                "link" => symlink(&place.secret, &staged).unwrap(),
                "name" => fs::hard_link(&place.secret, &staged).unwrap(),
                _ => return fs::remove_file(place.at("invoice.txt")).unwrap(),
            }
            fs::rename(staged, place.at("invoice.txt")).unwrap();
        });
        assert!(matches!(outcome, Err(ResolveError::Changed)), "{swap}: {outcome:?}");
    }
}

#[test]
fn a_file_that_changes_between_check_and_use_is_refused() {
    type Act = fn(&Path);
    let acts: [(&str, Act); 4] = [
        ("written over", |path| fs::write(path, vec![b'x'; INSIDE.len()]).unwrap()),
        ("cut", |path| File::options().write(true).open(path).unwrap().set_len(3).unwrap()),
        ("appended to", |path| File::options().append(true).open(path).unwrap().write_all(b"x").unwrap()),
        ("linked", |path| fs::hard_link(path, path.with_extension("second")).unwrap()),
    ];
    for (name, act) in acts {
        let place = Place::new();
        let outcome = place.read_while("invoice.txt", 1, || act(&place.at("invoice.txt")));
        assert!(matches!(outcome, Err(ResolveError::Changed)), "{name}: {outcome:?}");
    }
}

#[test]
fn file_changed_after_its_last_byte_is_refused() {
    let place = Place::new();
    let outcome = place.read_while("invoice.txt", 2, || fs::write(place.at("invoice.txt"), INSIDE).unwrap());
    assert!(matches!(outcome, Err(ResolveError::Changed)), "{outcome:?}");
}

#[test]
fn swapped_root_folder_is_not_followed() {
    let place = Place::new();
    let outcome = place.read_while("inner/invoice.txt", 2, || {
        fs::rename(place.at("inner"), place.at("aside")).unwrap();
        symlink(place.secret.parent().unwrap(), place.at("inner")).unwrap();
    });
    assert_eq!(outcome.unwrap().bytes(), INSIDE);
    assert_eq!(place.refusal("inner/invoice.txt"), "EVIDENCE_NOT_PLAIN");
}

#[test]
fn a_folder_that_is_swapped_before_it_is_opened_is_refused() {
    let place = Place::new();
    let outcome = place.read_while("inner/invoice.txt", 1, || {
        fs::rename(place.at("inner"), place.at("aside")).unwrap();
        symlink(place.secret.parent().unwrap(), place.at("inner")).unwrap();
    });
    assert!(matches!(outcome, Err(ResolveError::NotPlain)), "{outcome:?}");
}

#[test]
fn the_root_stays_the_folder_that_was_opened() {
    let place = Place::new();
    let moved = place.root.with_file_name("moved");
    fs::rename(&place.root, &moved).unwrap();
    symlink(place.secret.parent().unwrap(), &place.root).unwrap();
    assert_eq!(place.read("invoice.txt").unwrap().bytes(), INSIDE);
    let by_link = EvidenceFolder::open(&place.root).unwrap();
    assert_eq!(
        read(&by_link, "invoice.txt").unwrap().bytes(),
        SECRET,
        "the operator's path may lead through links"
    );
    fs::remove_dir_all(&moved).unwrap();
    assert!(matches!(place.read("invoice.txt"), Err(ResolveError::NotFound)));
}

#[test]
fn unreadable_file_is_refused() {
    let place = Place::new();
    let path = place.at("closed");
    fs::write(&path, INSIDE).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read it anyway, and then it is a plain file.
    match (File::open(&path), place.read("closed")) {
        (Ok(_), outcome) => assert_eq!(outcome.unwrap().bytes(), INSIDE),
        (Err(_), Err(ResolveError::Io(error))) => {
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied)
        }
        (Err(_), outcome) => panic!("{outcome:?}"),
    }
}

#[test]
fn a_name_that_only_looks_alike_is_another_name() {
    let place = Place::new();
    // The second has a Cyrillic letter, the third a full-width dot, the fourth a trailing space.
    for name in ["INVOICE.TXT", "invоice.txt", "invoice．txt", "invoice.txt "] {
        assert_ne!(name, "invoice.txt");
        if cfg!(target_os = "linux") {
            assert_eq!(place.refusal(name), "EVIDENCE_NOT_FOUND", "{name}");
        }
    }
    for name in
        ["invoice.txt\u{200b}", "\u{202e}txt.eciovni", "inner／invoice.txt", "inner\u{2060}/invoice.txt"]
    {
        fs::write(place.at(&name.replace('/', "")), SECRET).unwrap();
        assert_eq!(place.refusal(name), "EVIDENCE_REFERENCE", "{name:?}");
    }
}

#[test]
fn a_folder_is_no_evidence_and_a_file_is_no_folder() {
    let place = Place::new();
    assert_eq!(place.refusal("inner"), "EVIDENCE_NOT_PLAIN");
    assert_eq!(place.refusal("invoice.txt/invoice.txt"), "EVIDENCE_NOT_PLAIN");
}

#[test]
fn an_empty_file_is_evidence_of_no_bytes() {
    let place = Place::new();
    fs::write(place.at("empty"), "").unwrap();
    let read = place.read("empty").unwrap();
    assert!(read.bytes().is_empty() && read.digest() == Digest::of(b""));
}

#[test]
fn file_size_limit_is_exact() {
    let place = Place::new();
    fs::write(place.at("most"), vec![7; 1 << 20]).unwrap();
    fs::write(place.at("more"), vec![7; (1 << 20) + 1]).unwrap();
    let read =
        |name: &str, file, total| place.folder.resolve(&format!("file://{name}"), &mut budget(file, total));
    assert_eq!(read("most", MEBI, MEBI).unwrap().bytes(), vec![7; 1 << 20]);
    assert!(matches!(read("more", MEBI, 2 * MEBI), Err(ResolveError::TooLarge)));
    assert!(matches!(read("more", 2 * MEBI, MEBI), Err(ResolveError::Budget)));
}

#[test]
fn many_files_are_stopped_by_the_total() {
    let place = Place::new();
    let mut budget = budget(MEBI, 10 * INSIDE.len() as u64);
    let outcomes: Vec<_> = (0..64)
        .map(|n| {
            fs::write(place.at(&format!("{n}")), INSIDE).unwrap();
            place.folder.resolve(&format!("file://{n}"), &mut budget)
        })
        .collect();
    assert!(outcomes[..10].iter().all(Result::is_ok));
    assert!(outcomes[10..].iter().all(|outcome| matches!(outcome, Err(ResolveError::Budget))));
}

#[test]
fn time_that_runs_out_stops_the_way_down_and_the_reading() {
    let place = Place::new();
    fs::write(place.at("long"), vec![7; 1 << 20]).unwrap();
    for (name, step) in [("inner/invoice.txt", 501), ("long", 100)] {
        let clock = ActingClock::new(|asked| 1_000 + asked * step);
        let mut budget = EvidenceBudget::start(&clock, MEBI, MEBI, Millis::from_millis(500)).unwrap();
        let outcome = place.folder.resolve(&format!("file://{name}"), &mut budget);
        assert!(matches!(outcome, Err(ResolveError::Time)), "{name}: {outcome:?}");
        assert_eq!(clock.asked(), 1 + 500 / step + 1, "{name}");
    }
}

#[test]
fn a_root_that_is_missing_or_a_file_is_not_opened() {
    let place = Place::new();
    for path in [place.at("missing"), place.at("invoice.txt"), PathBuf::new()] {
        let error = EvidenceFolder::open(path).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("EVIDENCE_FOLDER", "the evidence folder cannot be opened")
        );
    }
}

#[test]
fn no_error_and_no_debug_text_has_a_path() {
    let place = Place::new();
    symlink(&place.secret, place.at("link")).unwrap();
    assert_eq!(format!("{:?}", place.folder), "EvidenceFolder");
    let mut texts = Vec::new();
    for name in ["link", "link/x", "missing", "inner", "../x"] {
        texts.push(format!("{0} {0:?}", place.read(name).unwrap_err()));
    }
    texts.push(format!("{:?}", EvidenceFolder::open(place.at("missing")).unwrap_err()));
    for text in texts {
        assert!(
            !["root", "link", "inner", "tmp", "outside"].iter().any(|part| text.contains(part)),
            "{text}"
        );
    }
}
