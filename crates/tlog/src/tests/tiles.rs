#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::string_slice,
    reason = "sizes are small here, and a test that goes out of range is to fail"
)]

use std::collections::BTreeMap;
use std::io;

use crate::note::NoteError;
use countersign_keys::SigningKey;
use countersign_merkle::{HeadError, InclusionProof, LeafHash, MerkleTree, NodeHash, RootHash, TreeHead};

use super::checkpoint::{ORIGIN, log_key, name, note, signing_key};
use crate::*;

type Files = BTreeMap<String, Vec<u8>>;

fn entry(index: u64) -> Vec<u8> {
    let mut entry = format!("{{\"seq\":{}}}", index + 1).into_bytes();
    entry.resize(entry.len() + (index % 7) as usize, b' ');
    entry
}

fn tree(size: u64) -> MerkleTree {
    (0..size).map(|index| LeafHash::of(&entry(index))).collect()
}

fn export(tree: &MerkleTree) -> Files {
    let mut files = Files::new();
    let mut last = String::new();
    let mut writer = TileWriter::new(|path: &str, bytes: &[u8]| {
        assert!(files.insert(path.to_owned(), bytes.to_vec()).is_none(), "{path} twice");
        last = path.to_owned();
        Ok(())
    });
    for index in 0..tree.size() {
        writer.append(&entry(index)).unwrap();
    }
    let checkpoint = writer.finish(&note(tree, tree.size()), &log_key()).unwrap();
    assert_eq!(checkpoint.head(), &tree.head());
    assert_eq!(last, "checkpoint");
    files
}

/// Reads a log only from its tiles, as the specification describes them.
struct Reader {
    files: Files,
    size: u64,
}

impl Reader {
    fn new(files: Files) -> Self {
        let note = std::str::from_utf8(&files["checkpoint"]).unwrap();
        let size = Checkpoint::verify(note, &log_key()).unwrap().size();
        Self { files, size }
    }

    fn tile(&self, level: &str, index: u64, width: u64) -> &[u8] {
        let digits = format!("{index:03}");
        let digits = "0".repeat((3 - digits.len() % 3) % 3) + &digits;
        let parts: Vec<&str> = (0..digits.len()).step_by(3).map(|at| &digits[at..at + 3]).collect();
        let number = parts.join("/x").replacen(parts[0], &format!("x{}", parts[0]), 1);
        // Only the last part has no `x`.
        let at = number.rfind('x').unwrap();
        let number = format!("{}{}", &number[..at], &number[at + 1..]);
        let suffix = if width == 256 { String::new() } else { format!(".p/{width}") };
        &self.files[&format!("tile/{level}/{number}{suffix}")]
    }

    /// Returns the hash of a full subtree of 2^`height` leaves.
    fn node(&self, height: u32, index: u64) -> NodeHash {
        let (level, inside) = (height / 8, height % 8);
        if inside > 0 {
            return NodeHash::of(&self.node(height - 1, index * 2), &self.node(height - 1, index * 2 + 1));
        }
        let there = self.size >> (8 * level);
        let width = (there - index / 256 * 256).min(256);
        let tile = self.tile(&level.to_string(), index / 256, width);
        assert_eq!(tile.len() as u64, width * 32);
        let at = (index % 256 * 32) as usize;
        tile[at..at + 32].try_into().unwrap()
    }

    /// RFC 9162, section 2.1.1, over the leaves from `start` to before `end`.
    fn hash(&self, start: u64, end: u64) -> NodeHash {
        let count = end - start;
        if count.is_power_of_two() && start.is_multiple_of(count) {
            return self.node(count.ilog2(), start / count);
        }
        let half = 1 << (count - 1).ilog2();
        NodeHash::of(&self.hash(start, start + half), &self.hash(start + half, end))
    }

    fn head(&self) -> TreeHead {
        let root = if self.size == 0 {
            RootHash::empty()
        } else {
            RootHash::from_digest(self.hash(0, self.size).digest())
        };
        TreeHead::new(self.size, root).unwrap()
    }

    /// RFC 9162, section 2.1.3.1.
    fn path(&self, index: u64, start: u64, end: u64) -> Vec<NodeHash> {
        if end - start <= 1 {
            return Vec::new();
        }
        let middle = start + (1 << (end - start - 1).ilog2());
        let (mut path, other) = if index < middle {
            (self.path(index, start, middle), self.hash(middle, end))
        } else {
            (self.path(index, middle, end), self.hash(start, middle))
        };
        path.push(other);
        path
    }

    fn entry(&self, index: u64) -> Vec<u8> {
        let width = (self.size - index / 256 * 256).min(256);
        let mut bundle = self.tile("entries", index / 256, width);
        let mut entries = Vec::new();
        while let Some((length, rest)) = bundle.split_first_chunk::<2>() {
            let (entry, rest) = rest.split_at(u16::from_be_bytes(*length).into());
            entries.push(entry.to_vec());
            bundle = rest;
        }
        assert_eq!(entries.len() as u64, width);
        entries[(index % 256) as usize].clone()
    }
}

#[test]
fn root_entries_and_proofs_come_back_from_the_tiles_alone() {
    for size in [0, 1, 2, 3, 255, 256, 257, 511, 512, 700, 65_536, 65_539] {
        let tree = tree(size);
        let reader = Reader::new(export(&tree));
        assert_eq!(reader.head(), tree.head(), "{size}");
        for index in
            [0, 1, 100, 255, 256, 511, 65_535, 65_536, 65_538].into_iter().filter(|index| *index < size)
        {
            assert_eq!(reader.entry(index), entry(index), "{size} {index}");
            let proof = InclusionProof::new(index, size, reader.path(index, 0, size)).unwrap();
            assert_eq!(proof, tree.prove_inclusion(index).unwrap(), "{size} {index}");
            assert!(proof.verify(&LeafHash::of(&reader.entry(index)), &reader.head()).is_ok());
        }
    }
}

#[test]
fn the_files_are_those_that_the_specification_counts() {
    let paths = |size| export(&tree(size)).into_keys().collect::<Vec<_>>();
    assert_eq!(paths(0), ["checkpoint"]);
    assert_eq!(paths(1), ["checkpoint", "tile/0/000.p/1", "tile/entries/000.p/1"]);
    assert_eq!(paths(255), ["checkpoint", "tile/0/000.p/255", "tile/entries/000.p/255"]);
    // "A tree of size 256 will be represented by a full level 0 tile and a partial level 1 tile of width 1."
    assert_eq!(paths(256), ["checkpoint", "tile/0/000", "tile/1/000.p/1", "tile/entries/000"]);
    let of_257 = [
        "checkpoint",
        "tile/0/000",
        "tile/0/001.p/1",
        "tile/1/000.p/1",
        "tile/entries/000",
        "tile/entries/001.p/1",
    ];
    assert_eq!(paths(257), of_257);
    // "A tree of size 70,000 will be represented by 273 full level 0 tiles, one partial level 0 tile of width 112, one
    // full level 1 tile, one partial level 1 tile of width 17, and one partial level 2 tile of width 1."
    let of_70_000 = paths(70_000);
    let count = |prefix: &str, partial: bool| {
        of_70_000.iter().filter(|path| path.starts_with(prefix) && path.contains(".p/") == partial).count()
    };
    assert_eq!((count("tile/0/", false), count("tile/1/", false), count("tile/2/", false)), (273, 1, 0));
    for path in ["tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1", "tile/entries/273.p/112"] {
        assert!(of_70_000.iter().any(|there| there == path), "{path}");
    }
    assert_eq!(of_70_000.len(), 273 * 2 + 1 + 4 + 1);
}

#[test]
fn the_number_of_a_tile_has_three_digits_a_part() {
    for (index, path) in [
        (0, "000"),
        (7, "007"),
        (999, "999"),
        (1_000, "x001/000"),
        (1_234_067, "x001/x234/067"),
        (1_000_000_000, "x001/x000/x000/000"),
        (u64::MAX, "x018/x446/x744/x073/x709/x551/615"),
    ] {
        assert_eq!(crate::tiles::number(index), path);
    }
}

#[test]
fn full_tiles_are_the_same_in_every_later_export() {
    let (early, late) = (export(&tree(600)), export(&tree(1_100)));
    let full = early.iter().filter(|(path, _)| path.starts_with("tile/") && !path.contains(".p/"));
    assert_eq!(full.clone().count(), 4);
    for (path, bytes) in full {
        assert_eq!(&late[path], bytes, "{path}");
    }
}

#[test]
fn no_checkpoint_is_written_that_is_not_of_just_these_entries() {
    let tree = tree(300);
    let finish = |count: u64, note: &str| {
        let mut paths = Vec::new();
        let mut writer = TileWriter::new(|path: &str, _: &[u8]| {
            paths.push(path.to_owned());
            Ok(())
        });
        for index in 0..count {
            writer.append(&entry(index)).unwrap();
        }
        let code = writer.finish(note, &log_key()).map_err(|error| error.code());
        (code.map(|checkpoint| checkpoint.size()), paths.contains(&"checkpoint".to_owned()))
    };
    assert_eq!(finish(300, &note(&tree, 300)), (Ok(300), true));
    assert_eq!(finish(300, &note(&tree, 299)), (Err("TILES_HEAD"), false));
    assert_eq!(finish(299, &note(&tree, 300)), (Err("TILES_HEAD"), false));
    let forked: MerkleTree = (0..300_u64).map(|index| LeafHash::of(&entry(index.max(1)))).collect();
    assert_eq!(finish(300, &note(&forked, 300)), (Err("TILES_HEAD"), false));
    let by_another = Checkpoint::new(name(ORIGIN), tree.head()).sign(&SigningKey::from_seed([8; 32]));
    assert_eq!(finish(300, &by_another), (Err("NOTE_UNSIGNED"), false));
    let of_another = Checkpoint::new(name("log.example/other"), tree.head()).sign(&signing_key());
    assert_eq!(finish(300, &of_another), (Err("NOTE_UNSIGNED"), false));
}

#[test]
fn after_a_tile_that_could_not_be_written_nothing_more_is() {
    let order = ["tile/entries/000", "tile/0/000"];
    for (at, broken) in order.into_iter().enumerate() {
        let mut paths = Vec::new();
        let mut writer = TileWriter::new(|path: &str, _: &[u8]| {
            paths.push(path.to_owned());
            if path == broken { Err(io::Error::other("disk")) } else { Ok(()) }
        });
        (0..255).for_each(|index| writer.append(&entry(index)).unwrap());
        assert!(matches!(writer.append(&entry(255)), Err(TilesError::Write(_))), "{broken}");
        assert!(matches!(writer.append(&entry(256)), Err(TilesError::Broken)), "{broken}");
        let finished = writer.finish(&note(&tree(256), 256), &log_key());
        assert!(matches!(finished, Err(TilesError::Broken)), "{broken}");
        assert_eq!(paths, order[..=at]);
    }
}

#[test]
fn a_write_that_fails_at_the_end_leaves_no_checkpoint() {
    let order = ["tile/entries/000.p/3", "tile/0/000.p/3", "checkpoint"];
    for (at, broken) in order.into_iter().enumerate() {
        let mut paths = Vec::new();
        let mut writer = TileWriter::new(|path: &str, _: &[u8]| {
            paths.push(path.to_owned());
            if path == broken { Err(io::Error::other("secret.txt")) } else { Ok(()) }
        });
        (0..3).for_each(|index| writer.append(&entry(index)).unwrap());
        let error = writer.finish(&note(&tree(3), 3), &log_key()).unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("secret")), ("TILES_WRITE", false));
        assert_eq!(paths, order[..=at]);
    }
}

#[test]
fn an_entry_has_at_most_65535_bytes() {
    let mut writer = TileWriter::new(|_: &str, _: &[u8]| Ok(()));
    assert_eq!(writer.append(&[b' '; 65_536]).map_err(|error| error.code()), Err("TILES_TOO_LONG"));
    writer.append(&[b' '; 65_535]).unwrap();
    let tree: MerkleTree = [LeafHash::of(&[b' '; 65_535])].into_iter().collect();
    assert!(writer.finish(&note(&tree, 1), &log_key()).is_ok(), "the one that was too long is not there");
}

#[test]
fn every_tiles_error_has_a_stable_code_and_one_plain_line() {
    for (error, code) in [
        (TilesError::Write(io::Error::other("x")), "TILES_WRITE"),
        (TilesError::Broken, "TILES_WRITE"),
        (TilesError::TooLong, "TILES_TOO_LONG"),
        (TilesError::Checkpoint(NoteError::Malformed.into()), "NOTE_MALFORMED"),
        (TilesError::Checkpoint(HeadError::TooLarge.into()), "MERKLE_TOO_LARGE"),
        (TilesError::Head, "TILES_HEAD"),
        (TilesError::Changed { path: "tile/0/000".to_owned() }, "TILES_CHANGED"),
    ] {
        assert_eq!(error.code(), code);
        assert!(!error.to_string().contains('\n'));
    }
}

/// Exports a log at one size, and then continues from there in the same files.
fn export_in_two(old: u64, new: u64) -> Files {
    let (earlier, mut files) = (tree(old), export(&tree(old)));
    let checkpoint = Checkpoint::new(name(ORIGIN), earlier.head());
    let there = files.clone();
    let write = |path: &str, bytes: &[u8]| {
        files.insert(path.to_owned(), bytes.to_vec());
        Ok(())
    };
    let mut writer = TileWriter::resume(write, &checkpoint, |path| there.get(path).cloned()).unwrap();
    assert_eq!(writer.size(), old);
    (old..new).for_each(|index| writer.append(&entry(index)).unwrap());
    writer.finish(&note(&tree(new), new), &log_key()).unwrap();
    files
}

#[test]
fn resumed_export_has_the_files_of_a_whole_one() {
    for (old, new) in
        [(0, 3), (1, 1), (5, 256), (255, 300), (256, 257), (300, 900), (512, 512), (65_537, 65_800)]
    {
        let (whole, resumed) = (export(&tree(new)), export_in_two(old, new));
        for (path, bytes) in whole {
            assert!(resumed.get(&path) == Some(&bytes), "{path} of {old}, {new}");
        }
    }
}

#[test]
fn resumed_export_needs_the_files_of_its_checkpoint() {
    let (earlier, files) = (tree(700), export(&tree(700)));
    let checkpoint = Checkpoint::new(name(ORIGIN), earlier.head());
    let resume = |files: &Files, checkpoint: &Checkpoint| {
        TileWriter::resume(|_: &str, _: &[u8]| Ok(()), checkpoint, |path| files.get(path).cloned()).is_some()
    };
    assert!(resume(&files, &checkpoint));
    let other = Checkpoint::new(name(ORIGIN), super::checkpoint::tree(700).head());
    assert!(!resume(&files, &other));
    for path in ["tile/entries/002.p/188", "tile/1/000.p/2"] {
        let mut wrong = files.clone();
        wrong.remove(path);
        assert!(!resume(&wrong, &checkpoint), "{path}");
        for change in [|bytes: &mut Vec<u8>| bytes[5] ^= 1, |bytes: &mut Vec<u8>| bytes.truncate(31)] {
            let mut wrong = files.clone();
            change(wrong.get_mut(path).unwrap());
            assert!(!resume(&wrong, &checkpoint), "{path}");
        }
    }
}

#[test]
fn changed_last_full_file_is_named() {
    for size in [256, 512, 700, 65_536, 65_792, 66_000] {
        let (earlier, mut files) = (tree(size), export(&tree(size)));
        let checkpoint = Checkpoint::new(name(ORIGIN), earlier.head());
        let verify = |files: &Files| {
            let read = |path: &str| files.get(path).cloned();
            let writer = TileWriter::resume(|_: &str, _: &[u8]| Ok(()), &checkpoint, read).unwrap();
            writer.verify_last_full(read)
        };
        verify(&files).unwrap();
        let last = (size / 256 - 1) as usize;
        let mut due = vec![format!("tile/0/{last:03}"), format!("tile/entries/{last:03}")];
        if size >= 65_536 {
            due.push("tile/1/000".to_owned());
        }
        for path in due {
            let good = files[&path].clone();
            for change in [|bytes: &mut Vec<u8>| bytes[5] ^= 1, |bytes: &mut Vec<u8>| bytes.truncate(32)] {
                change(files.get_mut(&path).unwrap());
                let error = verify(&files).unwrap_err();
                assert!(matches!(&error, TilesError::Changed { path: named } if *named == path), "{error}");
                files.insert(path.clone(), good.clone());
            }
            files.remove(&path);
            assert_eq!(verify(&files).unwrap_err().code(), "TILES_CHANGED");
            files.insert(path, good);
        }
    }
}

#[test]
fn full_tiles_are_those_without_a_width() {
    for size in [0, 5, 256, 700, 66_000] {
        let files = export(&tree(size));
        let full: Vec<_> =
            files.keys().filter(|path| !path.contains(".p/") && *path != "checkpoint").collect();
        let mut said: Vec<_> = full_tiles(size).collect();
        said.sort();
        assert!(full.into_iter().eq(&said), "{size}");
    }
}
