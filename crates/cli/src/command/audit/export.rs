use std::io;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use countersign_audit_log::{
    Checkpoint, LogNumber, TileWriter, TilesError, VerifiedEntries, full_tiles, list_logs,
};
use serde_json::{Value, json};

use countersign_host::entries::changed;

use super::log::{KeptCheckpoint, LogArgs, LogChoice, ProvableLog};
use super::verify::root_of;
use crate::failure::{Exit, Failure};
use crate::files::{Replace, read_file, read_text_file, write_file};
use crate::output::Output;

/// Most bytes of a tile: a bundle of 256 entries.
const TILE_BYTES: u64 = 256 * (65_535 + 2);

/// Name of the checkpoint file, which is written last.
const CHECKPOINT: &str = "checkpoint";

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    choice: LogChoice,
    /// Folder to write the tiles to: a new one, or that of an earlier export of the same log. Those of a numbered log go into a
    /// subfolder of that number.
    #[arg(long, value_name = "FOLDER")]
    tiles: PathBuf,
}

/// A verified export that is ready to write: the earlier export that it resumes, if any, and the missing entries.
struct PendingExport {
    earlier: Option<Checkpoint>,
    entries: VerifiedEntries,
}

/// Number of files written, and of files that existed already.
#[derive(Debug, Default)]
struct FileCounts {
    written: u64,
    kept: u64,
}

impl Export {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        self.must_lie_apart()?;
        // The log must be an extension of every checkpoint that was published before.
        let mut logs = self.log.provable(self.choice, &self.earlier()?)?;
        // All entries are verified before the first file is written.
        let pending = logs.iter_mut().map(|log| self.pending(log)).collect::<Result<Vec<_>, _>>()?;
        let mut reports = Vec::new();
        for (log, pending) in logs.iter().zip(pending) {
            log.make_durable()?;
            reports.push(self.export(log, pending)?);
        }
        if out.is_json() {
            let reports: Vec<_> = reports.into_iter().map(|(report, _)| report).collect();
            let mut first = reports.first().cloned().unwrap_or_default();
            if let (Some(members), true) = (first.as_object_mut(), reports.len() > 1) {
                members.insert("logs".to_owned(), Value::Array(reports));
            }
            out.json(&first)?;
        } else {
            reports.iter().try_for_each(|(_, text)| out.line(text))?;
        }
        Ok(Exit::Done)
    }

    /// Finds the checkpoints of earlier exports, each with the number of its log.
    fn earlier(&self) -> Result<Vec<KeptCheckpoint>, Failure> {
        let mut numbers = vec![LogNumber::FIRST];
        match self.choice.number() {
            Some(number) => numbers = vec![number],
            None if self.tiles.is_dir() => {
                let about = |error: io::Error| {
                    Failure::new("FILE_UNREADABLE", error.to_string()).about(self.tiles.display())
                };
                for entry in std::fs::read_dir(&self.tiles).map_err(about)? {
                    let name = entry.map_err(about)?.file_name();
                    numbers.extend(name.to_str().and_then(|name| name.parse::<LogNumber>().ok()));
                }
            }
            None => {}
        }
        let kept = numbers.into_iter().map(|number| (Some(number), self.folder_of(number).join(CHECKPOINT)));
        Ok(kept.filter(|(_, path)| path.symlink_metadata().is_ok()).collect())
    }

    /// Folder of a log's tiles: the tiles folder itself, or a subfolder for a numbered log.
    fn folder_of(&self, number: LogNumber) -> PathBuf {
        number.folder_in(&self.tiles)
    }

    /// Verifies the entries that a log's tiles lack: all entries if the earlier export is incomplete.
    fn pending(&self, log: &mut ProvableLog) -> Result<PendingExport, Failure> {
        let folder = self.folder_of(log.number);
        let note = Some(folder.join(CHECKPOINT)).filter(|path| path.symlink_metadata().is_ok());
        let note = note.map(|path| read_text_file(&path)).transpose()?;
        // The log was verified to extend this checkpoint.
        let earlier = note.and_then(|note| Checkpoint::verify(&note, &log.key).ok());
        let resumed =
            earlier.filter(|earlier| full_tiles(earlier.size()).all(|path| folder.join(path).is_file()));
        let resumed = resumed.and_then(|earlier| Some((resume(&folder, &earlier, |_, _| Ok(()))?, earlier)));
        let earlier = resumed.map(|(tiles, earlier)| {
            let verified = tiles.verify_last_full(|path| read_tile(&folder, path));
            verified.map(|()| earlier).map_err(|error| tiles_failure(&error).about(folder.display()))
        });
        let earlier = earlier.transpose()?;
        let first = earlier.as_ref().map_or(0, Checkpoint::size).saturating_add(1);
        let entries = log.prover.entries_from(first).map_err(|error| log.failure(error))?;
        Ok(PendingExport { earlier, entries })
    }

    /// Writes the tiles of one log and returns the report as JSON and as text.
    fn export(&self, log: &ProvableLog, pending: PendingExport) -> Result<(Value, String), Failure> {
        let folder = self.folder_of(log.number);
        let PendingExport { earlier, mut entries } = pending;
        let there = earlier.as_ref().map_or(0, |earlier| full_tiles(earlier.size()).count());
        let mut count = FileCounts { kept: there as u64, ..FileCounts::default() };
        let mut failed = None;
        {
            let write = |path: &str, bytes: &[u8]| {
                put(&folder, path, bytes, &mut count).map_err(|failure| {
                    failed = Some(failure);
                    io::ErrorKind::Other.into()
                })
            };
            let tiles = match &earlier {
                Some(earlier) => resume(&folder, earlier, write),
                None => Some(TileWriter::new(write)),
            };
            let changed = || Failure::from(changed().about(log.folder.display()));
            tiles.ok_or_else(changed).and_then(|mut tiles| {
                entries.try_for_each(|entry| {
                    let entry = entry.map_err(|_| changed())?;
                    tiles.append(entry.line()).map_err(|error| tiles_failure(&error))
                })?;
                tiles.finish(log.prover.note(), &log.key).map_err(|error| tiles_failure(&error))
            })
        }
        .map_err(|failure| failed.unwrap_or(failure))?;
        let FileCounts { written, kept } = count;
        let (records, folder) = (log.records(), folder.display());
        let mut report = json!({
            "ok": true,
            "origin": log.key.origin().as_str(),
            "size": records,
            "root": root_of(log.prover.checkpoint()),
            "out": folder.to_string(),
            "files_written": written,
            "files_kept": kept,
        });
        if let (Some(name), Some(members)) = (log.name, report.as_object_mut()) {
            members.insert("log".to_owned(), json!(name.to_string()));
        }
        let name = log.name.map(|name| format!("log {name}: ")).unwrap_or_default();
        let text =
            format!("{name}{records} entries in {folder}: {written} files written, {kept} there already");
        Ok((report, text))
    }

    /// Refuses a tiles folder that overlaps the log's folder: a server of the tiles would also serve the log, and the
    /// log's folder would contain foreign files.
    fn must_lie_apart(&self) -> Result<(), Failure> {
        let (mut log, tiles) = (resolved(self.log.folder()), resolved(&self.tiles));
        let is_numbered = log
            .file_name()
            .is_some_and(|name| name.to_str().is_some_and(|name| name.parse::<LogNumber>().is_ok()));
        if let Some(parent) = log.parent().filter(|_| is_numbered)
            && list_logs(parent).is_ok_and(|logs| !logs.is_empty())
        {
            log = parent.to_owned();
        }
        if log.starts_with(&tiles) || tiles.starts_with(&log) {
            let text = "the tiles folder is the log's folder, inside it, or contains it";
            return Err(Failure::new("TILES_FOLDER", text).about(self.tiles.display()));
        }
        Ok(())
    }
}

/// Resumes an earlier export in a folder, if its last tiles lead to its checkpoint.
fn resume<W: FnMut(&str, &[u8]) -> io::Result<()>>(
    folder: &Path,
    earlier: &Checkpoint,
    write: W,
) -> Option<TileWriter<W>> {
    TileWriter::resume(write, earlier, |path| read_tile(folder, path))
}

fn read_tile(folder: &Path, path: &str) -> Option<Vec<u8>> {
    read_file(&folder.join(path), TILE_BYTES).ok()
}

/// Writes a file atomically; skips a file that already has this content.
fn put(folder: &Path, path: &str, bytes: &[u8], count: &mut FileCounts) -> Result<(), Failure> {
    let is_checkpoint = path == CHECKPOINT;
    let path = folder.join(path);
    let most = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if path.is_file() && read_file(&path, most).is_ok_and(|there| there == bytes) {
        count.kept = count.kept.saturating_add(1);
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    // An existing checkpoint was verified to belong to this log.
    write_file(&path, bytes, Replace::from(is_checkpoint))?;
    count.written = count.written.saturating_add(1);
    Ok(())
}

/// Resolves a path, even if parts of it are missing. Missing parts are treated as folders, so that `..` leads back.
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

/// Creates a folder and its missing parents, and syncs each parent so that the new name survives a crash.
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
        return Err(
            Failure::new("FILE_UNWRITABLE", "already exists, and is not a folder").about(folder.display())
        );
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

fn tiles_failure(error: &TilesError) -> Failure {
    let not_this_log =
        matches!(error, TilesError::Head | TilesError::Checkpoint(_) | TilesError::Changed { .. });
    let failure = Failure::new(error.code(), error.to_string());
    if not_this_log { failure.into_refusal() } else { failure }
}
