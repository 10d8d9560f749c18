//! One reader against threads that rename.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_core::{Millis, SystemClock};

use super::folder::Done;
use crate::{EvidenceBudget, EvidenceFolder, EvidenceResolver};

const INSIDE: &[u8] = b"what lies inside of the folder";
const SECRET: &[u8] = b"what lies outside of the folder, as a secret";

/// Makes the file `evidence` alternately a plain file, a link to the secret and a second name of the secret.
fn swap_file(root: &Path, secret: &Path) {
    let (staged, name) = (root.join("staged"), root.join("evidence"));
    for kind in ["name", "plain", "name", "plain", "link", "plain"] {
        match kind {
            "plain" => fs::write(&staged, INSIDE).unwrap(),
            "link" => symlink(secret, &staged).unwrap(),
            _ => fs::hard_link(secret, &staged).unwrap(),
        }
        fs::rename(&staged, &name).unwrap();
    }
}

/// Makes the folder `inner` alternately a folder and a link to a folder outside, which has the secret.
fn swap_folder(root: &Path, outside: &Path) {
    let (staged, aside, name) = (root.join("staged-link"), root.join("aside"), root.join("inner"));
    symlink(outside, &staged).unwrap();
    fs::rename(&name, &aside).unwrap();
    fs::rename(&staged, &name).unwrap();
    fs::remove_file(&name).unwrap();
    fs::rename(&aside, &name).unwrap();
}

#[test]
fn rename_races_give_no_byte_from_outside() {
    race(5_000);
}

#[test]
#[ignore = "takes seconds of all cores; the leaks that it is for are one in tens of thousands"]
fn a_hundred_thousand_rename_races_give_no_byte_from_outside() {
    race(100_000);
}

fn race(readings: u32) {
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    fs::create_dir_all(root.join("inner")).unwrap();
    fs::create_dir(&outside).unwrap();
    let secret = outside.join("evidence");
    fs::write(&secret, SECRET).unwrap();
    fs::write(root.join("evidence"), INSIDE).unwrap();
    fs::write(root.join("inner/evidence"), INSIDE).unwrap();
    let folder = EvidenceFolder::open(&root).unwrap();
    let done = AtomicBool::new(false);
    let mut counts = BTreeMap::new();
    std::thread::scope(|scope| {
        let _at_the_end = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                swap_file(&root, &secret)
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                swap_folder(&root, &outside)
            }
        });
        for n in 0..readings {
            let reference = if n % 4 != 0 { "file://evidence" } else { "file://inner/evidence" };
            let clock = SystemClock::new();
            let mut budget = EvidenceBudget::start(&clock, 1_024, 1_024, Millis::from_secs(60)).unwrap();
            let outcome = match folder.resolve(reference, &mut budget) {
                Ok(evidence) if evidence.bytes() == INSIDE => "inside",
                Ok(_) => "outside",
                Err(error) => error.code(),
            };
            *counts.entry((reference, outcome)).or_insert(0_u32) += 1;
        }
    });
    let times =
        |outcome| counts.iter().filter(|(key, _)| key.1 == outcome).map(|(_, times)| times).sum::<u32>();
    println!("{counts:#?}");
    assert_eq!(times("outside"), 0, "{counts:?}");
    assert!(times("inside") > 0 && times("EVIDENCE_NOT_PLAIN") > 0, "{counts:?}");
}
