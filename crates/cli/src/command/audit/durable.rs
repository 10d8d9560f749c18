use std::fs::File;
use std::io;
use std::path::Path;

/// Syncs the segments of a log that was read. Their writer may not have synced them yet.
pub(super) fn make_durable(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // Opening a FIFO would block until its writer opens it.
        if path.extension().is_some_and(|kind| kind == "jsonl") && entry.file_type()?.is_file() {
            open_to_sync(&path)?.sync_all()?;
        }
    }
    sync_folder(folder)
}

#[cfg(unix)]
fn open_to_sync(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn open_to_sync(path: &Path) -> io::Result<File> {
    File::options().write(true).open(path)
}

#[cfg(not(unix))]
const fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
