use std::io;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use countersign_audit_log::{TileWriter, TilesError};
use serde_json::json;

use super::log::LogArgs;
use super::verify::root_of;
use crate::failure::{Exit, Failure};
use crate::files::{Replace, read_file, write_file};
use crate::output::Output;

/// The file that says what is there, written last.
const CHECKPOINT: &str = "checkpoint";

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    log: LogArgs,
    /// Folder to write the tiles to: a new one, or that of an earlier export of the same log.
    #[arg(long, value_name = "FOLDER")]
    tiles: PathBuf,
}

/// How many files were written, and how many were there already.
#[derive(Debug, Default)]
struct Count {
    written: u64,
    kept: u64,
}

impl Export {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        self.must_lie_apart()?;
        let earlier = self.tiles.join(CHECKPOINT);
        let earlier = if earlier.symlink_metadata().is_ok() { vec![earlier] } else { Vec::new() };
        // What was published once, the log has to go on from.
        let verified = self.log.verify_to_give_out(&earlier)?;
        let mut count = Count::default();
        let mut failed = None;
        {
            let mut tiles = TileWriter::new(|path: &str, bytes: &[u8]| {
                self.put(path, bytes, &mut count).map_err(|failure| {
                    failed = Some(failure);
                    io::ErrorKind::Other.into()
                })
            });
            self.log
                .each(&verified, |entry| Ok(tiles.append(entry.line())?))
                .and_then(|()| Ok(tiles.finish(&verified.summary.note, &verified.key)?))
                .map(drop)
        }
        .map_err(|failure| failed.unwrap_or(failure))?;
        let (records, folder) = (verified.summary.records, self.tiles.display());
        let report = json!({
            "ok": true,
            "origin": verified.key.origin().as_str(),
            "size": records,
            "root": root_of(&verified.summary),
            "out": folder.to_string(),
            "files_written": count.written,
            "files_kept": count.kept,
        });
        let Count { written, kept } = count;
        let text = format!("{records} entries in {folder}: {written} files written, {kept} there already");
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }

    /// Whatever serves the tiles would serve the log with them, and the log would hold files that are none of its own.
    fn must_lie_apart(&self) -> Result<(), Failure> {
        let (log, tiles) = (resolved(self.log.folder()), resolved(&self.tiles));
        if log.starts_with(&tiles) || tiles.starts_with(&log) {
            let text = "tiles are not written to the log's folder, into it, or around it";
            return Err(Failure::new("TILES_FOLDER", text).about(self.tiles.display()));
        }
        Ok(())
    }

    /// Writes a file whole, and leaves one alone that has the same content.
    fn put(&self, path: &str, bytes: &[u8], count: &mut Count) -> Result<(), Failure> {
        let path = self.tiles.join(path);
        let most = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if path.is_file() && read_file(&path, most).is_ok_and(|there| there == bytes) {
            count.kept = count.kept.saturating_add(1);
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        // An older checkpoint was verified to be one of this log's.
        let replace = Replace::from(path == self.tiles.join(CHECKPOINT));
        write_file(&path, bytes, replace)?;
        count.written = count.written.saturating_add(1);
        Ok(())
    }
}

/// Where a path leads, whether all of it is there yet or not. What is not there is made as folders, so that `..` leads back.
fn resolved(path: &Path) -> PathBuf {
    let mut at = PathBuf::new();
    for part in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match part {
            Component::ParentDir => drop(at.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => at.push(part),
        }
        at = at.canonicalize().unwrap_or(at);
    }
    at
}

/// Makes a folder, and those that it lies in, each so that it outlives a crash.
fn make_folder(folder: &Path) -> Result<(), Failure> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_folder(parent)?;
    if folder.symlink_metadata().is_ok() {
        return Err(Failure::new("FILE_UNWRITABLE", "is there, and is no folder").about(folder.display()));
    }
    let made = std::fs::create_dir(folder).and_then(|()| sync_folder(parent));
    made.map_err(|error| Failure::new("FILE_UNWRITABLE", error.to_string()).about(folder.display()))
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
const fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

impl From<TilesError> for Failure {
    fn from(error: TilesError) -> Self {
        let not_this_log = matches!(error, TilesError::Head | TilesError::Checkpoint(_));
        let failure = Self::new(error.code(), error.to_string());
        if not_this_log { failure.into_refusal() } else { failure }
    }
}
