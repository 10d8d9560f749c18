//! Reads and writes files, within limits and with stable codes.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use countersign_keys::trusted::{PRIVATE_MODE, PUBLIC_MODE, open_regular, read_trusted, set_mode};

use crate::error::HostError;

/// Most bytes of a text without a limit of its own: a goal, a token, a configuration.
pub const TEXT_BYTES: u64 = 1 << 20;
/// Most bytes of a registry file: a signed snapshot or a draft.
pub const REGISTRY_BYTES: u64 = 64 << 20;

/// Reads a regular file, and never holds more than `max` bytes plus one.
///
/// # Errors
/// `FILE_MISSING`, `FILE_UNREADABLE`, `FILE_TOO_LARGE`.
pub fn read_file(path: &Path, max: u64) -> Result<Vec<u8>, HostError> {
    let (file, about) = open_regular(path).map_err(|error| unreadable(path, &error))?;
    let name = path.display().to_string();
    if about.len() > max {
        return Err(too_large(&name, max));
    }
    within(take_file(&file, path, max.saturating_add(1))?, max, &name)
}

/// Reads a file that is trusted because of its owner: refused if anyone but root and the current user can have written
/// it.
///
/// # Errors
/// Those of [`read_file`], and `FILE_UNTRUSTED`.
pub fn read_trusted_file(path: &Path, max: u64) -> Result<Vec<u8>, HostError> {
    read_trusted(path, max).map_err(|error| HostError::from(error).about(path.display()))
}

/// Reads at most `max` bytes of an open file.
///
/// # Errors
/// `FILE_UNREADABLE`.
pub fn take_file(file: &File, path: &Path, max: u64) -> Result<Vec<u8>, HostError> {
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

/// Returns the bytes unless there are more than `max`.
///
/// # Errors
/// `FILE_TOO_LARGE`.
pub fn within(bytes: Vec<u8>, max: u64, what: &str) -> Result<Vec<u8>, HostError> {
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= max) { Ok(bytes) } else { Err(too_large(what, max)) }
}

/// Reads a UTF-8 file.
///
/// # Errors
/// Those of [`read_file`], and `FILE_NOT_TEXT`.
pub fn read_text_file(path: &Path) -> Result<String, HostError> {
    text_of(path, read_file(path, TEXT_BYTES)?)
}

/// Reads a UTF-8 file that is trusted because of its owner, as [`read_trusted_file`] does.
///
/// # Errors
/// Those of [`read_trusted_file`], and `FILE_NOT_TEXT`.
pub fn read_trusted_text(path: &Path) -> Result<String, HostError> {
    text_of(path, read_trusted_file(path, TEXT_BYTES)?)
}

/// Reads a UTF-8 file with secrets: refused if anyone but root and the current user can have written or read it.
///
/// # Errors
/// Those of [`read_trusted_text`], and `FILE_TOO_OPEN`.
pub fn read_secret_text(path: &Path) -> Result<String, HostError> {
    let text = read_trusted_text(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let about = path.metadata().map_err(|error| unreadable(path, &error))?;
        if about.mode() & 0o077 != 0 {
            let text = format!("others may read it (mode {:04o}): `chmod 600` it", about.mode() & 0o7777);
            return Err(HostError::new("FILE_TOO_OPEN", text));
        }
    }
    Ok(text)
}

fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, HostError> {
    String::from_utf8(bytes).map_err(|_| HostError::new("FILE_NOT_TEXT", "not UTF-8").about(path.display()))
}

/// Whether an existing file may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum Replace {
    /// It stays: writing fails.
    Never,
    /// It may be replaced.
    Allowed,
}

impl From<bool> for Replace {
    fn from(force: bool) -> Self {
        if force { Self::Allowed } else { Self::Never }
    }
}

/// Writes a file atomically: into a temporary file beside it, which is synced and then moved into place. Its mode is
/// 0644, regardless of the umask.
///
/// # Errors
/// `FILE_EXISTS`, `FILE_UNWRITABLE`.
pub fn write_file(path: &Path, bytes: &[u8], replace: Replace) -> Result<(), HostError> {
    write_with_mode(path, bytes, replace, PUBLIC_MODE)
}

/// Writes a file with secrets as [`write_file`] does, with mode 0600, in the place of one that may exist.
///
/// # Errors
/// `FILE_UNWRITABLE`.
pub fn write_secret_file(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    write_with_mode(path, bytes, Replace::Allowed, PRIVATE_MODE)
}

fn write_with_mode(path: &Path, bytes: &[u8], replace: Replace, mode: u32) -> Result<(), HostError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(".countersign-").tempfile_in(folder);
    let mut temporary = made.map_err(|error| unwritable(path, &error))?;
    let written = set_mode(temporary.as_file(), mode).and_then(|()| temporary.write_all(bytes));
    written.map_err(|error| unwritable(path, &error))?;
    temporary.as_file().sync_all().map_err(|error| unwritable(path, &error))?;
    let moved = match replace {
        Replace::Never => temporary.persist_noclobber(path),
        Replace::Allowed => temporary.persist(path),
    };
    moved.map_err(|error| unwritable(path, &error.error))?;
    sync_folder(folder);
    Ok(())
}

/// Syncs the folder, which makes the new name durable. On a file system without this, the file is still complete.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

fn too_large(what: &str, max: u64) -> HostError {
    HostError::new("FILE_TOO_LARGE", format!("`{what}` is larger than {max} bytes"))
}

/// Error for a file that would be overwritten.
#[must_use]
pub fn exists(path: &Path) -> HostError {
    HostError::new("FILE_EXISTS", "already exists; nothing was written").about(path.display())
}

/// Error for a file that cannot be read.
#[must_use]
pub fn unreadable(path: &Path, error: &io::Error) -> HostError {
    let code = if error.kind() == io::ErrorKind::NotFound { "FILE_MISSING" } else { "FILE_UNREADABLE" };
    HostError::new(code, error.to_string()).about(path.display())
}

/// Error for a file that cannot be written.
#[must_use]
pub fn unwritable(path: &Path, error: &io::Error) -> HostError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return exists(path);
    }
    // Errors of a temporary file end with its name, which means nothing to the user.
    let text = error.to_string();
    let text = text.split(" at path ").next().unwrap_or_default();
    HostError::new("FILE_UNWRITABLE", text).about(path.display())
}

#[cfg(test)]
mod tests {
    use super::{Replace, read_file, write_file};

    #[test]
    fn a_file_that_is_there_is_replaced_only_where_that_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        write_file(&path, b"one", Replace::Never).unwrap();
        assert_eq!(write_file(&path, b"two", Replace::Never).unwrap_err().code(), "FILE_EXISTS");
        assert_eq!(read_file(&path, 3).unwrap(), b"one");
        write_file(&path, b"two", Replace::Allowed).unwrap();
        assert_eq!(read_file(&path, 3).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn no_more_of_a_file_is_read_than_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        write_file(&path, b"four", Replace::Never).unwrap();
        assert_eq!(read_file(&path, 3).unwrap_err().code(), "FILE_TOO_LARGE");
    }

    #[test]
    #[cfg(unix)]
    fn only_a_regular_file_is_read() {
        for path in ["/dev/zero", "/dev/null", "/"] {
            assert_eq!(read_file(path.as_ref(), 1 << 16).unwrap_err().code(), "FILE_UNREADABLE", "{path}");
        }
    }
}
