//! Files that the process trusts because of their owner: keys, trust roots, registries and their state, policies,
//! keyrings, configurations.
//!
//! A file is opened once, without waiting for a FIFO's writer; kind, permissions, owner and size are checked on the
//! open handle. The folder's permissions are not checked: another user's file is refused by its owner, but a user who
//! may write to the folder can move a file that root or the process's user wrote. On systems without Unix permissions
//! neither mode nor owner is checked.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Mode of a public file: readable by all, writable by its owner.
pub const PUBLIC_MODE: u32 = 0o644;

/// Mode of a secret or a state file: for its owner alone.
pub const PRIVATE_MODE: u32 = 0o600;

/// A user other than root and the process's user may have written the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UntrustedFile {
    /// Group or others may write the file.
    #[error(
        "writable by group or others (mode {mode:04o}): check its content, then `chmod go-w {}`",
        quoted(path)
    )]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The owner is neither root nor the process's user.
    #[error(
        "owned by uid {uid}, not by root or uid {user}: check its content, then `chown {user} {}`",
        quoted(path)
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// The effective user of the process.
        user: u32,
    },
}

impl UntrustedFile {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooOpen { .. } => "FILE_TOO_OPEN",
            Self::Owner { .. } => "FILE_OWNER",
        }
    }
}

/// A file cannot be read. The message contains the path only as part of a command to repair it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// File not found.
    #[error("file not found")]
    Missing,
    /// The file cannot be opened or read, or is not a regular file.
    #[error("file cannot be read")]
    Unreadable(#[source] io::Error),
    /// The file exceeds the limit.
    #[error("file is larger than {max} bytes")]
    TooLarge {
        /// Maximum size in bytes.
        max: u64,
    },
    /// A user other than root and the process's user may have written the file.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
}

impl FileError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing => "FILE_MISSING",
            Self::Unreadable(_) => "FILE_UNREADABLE",
            Self::TooLarge { .. } => "FILE_TOO_LARGE",
            Self::Untrusted(untrusted) => untrusted.code(),
        }
    }
}

countersign_core::coded!(UntrustedFile, FileError);

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::Missing } else { Self::Unreadable(error) }
    }
}

/// Reads a trusted file of at most `max` bytes.
///
/// # Errors
/// [`FileError`]. [`FileError::Untrusted`] is detected before a byte is read.
pub fn read_trusted(path: &Path, max: u64) -> Result<Vec<u8>, FileError> {
    let (file, about) = open_regular(path)?;
    check_trusted(path, &about)?;
    if about.len() > max {
        return Err(FileError::TooLarge { max });
    }
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= max) {
        Ok(bytes)
    } else {
        Err(FileError::TooLarge { max })
    }
}

/// Opens a regular file for reading and returns it with the handle's metadata. Does not block on a FIFO.
///
/// # Errors
/// The system's error; [`io::ErrorKind::Other`] if the file is not regular.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    open_regular_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file with the given options, otherwise as [`open_regular`].
///
/// # Errors
/// As [`open_regular`].
pub fn open_regular_with(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    // why: without it, opening a planted FIFO would block. The check of the handle below refuses it.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.open(path)?;
    let about = file.metadata()?;
    if about.is_file() { Ok((file, about)) } else { Err(io::Error::other("not a regular file")) }
}

/// Opens a regular file to be written, never through a symbolic link.
///
/// # Errors
/// The system's error; `InvalidInput` for anything but a regular file. On systems other than Unix a link that replaces the file in
/// this moment is followed.
pub fn open_unfollowed_with(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    match path.symlink_metadata() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(about) if !about.is_file() => return Err(other()),
        _ => {}
    }
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits().cast_signed(),
    );
    let file = options.open(path)?;
    let about = file.metadata()?;
    if about.is_file() { Ok((file, about)) } else { Err(other()) }
}

/// Refuses an open file that has another name than this one, by which something else would be written.
///
/// # Errors
/// The system's error; `InvalidInput` where the path leads elsewhere, or the file has a second hard link. Never on systems
/// other than Unix.
#[cfg(unix)]
pub fn require_only_name(path: &Path, about: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    // why: of the path and not of the handle, since the name of a file elsewhere can be removed before its links are counted.
    let named = path.symlink_metadata()?;
    if (named.dev(), named.ino(), named.nlink()) == (about.dev(), about.ino(), 1) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the file has another name"))
}

/// Accepts every file.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub const fn require_only_name(_: &Path, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Creates a file that must not exist, with exactly these permission bits, ignoring the umask.
///
/// # Errors
/// The system's error.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let file = with_mode(OpenOptions::new().write(true).create_new(true), mode).open(path)?;
    set_mode(&file, mode)?;
    Ok(file)
}

/// Writes a public file with mode 0644, ignoring the umask. Overwrites an existing file in place.
///
/// # Errors
/// The system's error.
pub fn write_public(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = with_mode(options.write(true).create(true).truncate(true), PUBLIC_MODE);
    let mut file = options.open(path)?;
    set_mode(&file, PUBLIC_MODE)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Sets the permission bits for creating a file, which the umask may reduce.
pub fn with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options
}

/// Checks, by the metadata of an open handle, that only root and the process's user may have written a file.
///
/// # Errors
/// [`UntrustedFile`]; the path is for its message only.
#[cfg(unix)]
pub fn check_trusted(path: &Path, about: &Metadata) -> Result<(), UntrustedFile> {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid().as_raw();
    if about.uid() != 0 && about.uid() != user {
        return Err(UntrustedFile::Owner { path: path.to_owned(), uid: about.uid(), user });
    }
    let mode = about.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(UntrustedFile::TooOpen { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Accepts every file: this system has no Unix permissions.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub fn check_trusted(_: &Path, _: &Metadata) -> Result<(), UntrustedFile> {
    Ok(())
}

/// Sets the permission bits of an open file.
///
/// # Errors
/// The system's error.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    return file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    {
        let _ = (file, mode);
        Ok(())
    }
}

/// Quotes the path for a shell if necessary.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::path::PathBuf;
    use std::process::Command;

    use super::{check_trusted, open_regular, quoted, read_trusted};

    fn file(mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.json");
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_that_others_may_write_is_refused_with_its_chmod() {
        for mode in [0o620, 0o602, 0o664, 0o666] {
            let (_folder, path) = file(mode);
            let error = read_trusted(&path, 9).unwrap_err();
            assert_eq!(error.code(), "FILE_TOO_OPEN", "{mode:o}");
            assert!(error.to_string().ends_with(&format!("`chmod go-w {}`", path.display())), "{error}");
        }
        for mode in [0o600, 0o644, 0o444, 0o755] {
            let (_folder, path) = file(mode);
            assert_eq!(read_trusted(&path, 9).unwrap(), b"{}", "{mode:o}");
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let (_folder, path) = file(0o600);
        // Only root may change the owner; other users cannot create this case.
        if chown(&path, Some(65_534), None).is_err() {
            return;
        }
        let (_, about) = open_regular(&path).unwrap();
        assert_eq!(check_trusted(&path, &about).unwrap_err().code(), "FILE_OWNER");
        assert_eq!(read_trusted(&path, 9).unwrap_err().code(), "FILE_OWNER");
    }

    #[test]
    fn a_fifo_is_refused_without_waiting_for_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(read_trusted(&path, 9).unwrap_err().code(), "FILE_UNREADABLE");
    }

    #[test]
    fn a_path_is_quoted_for_a_shell() {
        assert_eq!(quoted("/etc/a-b/root.json".as_ref()), "/etc/a-b/root.json");
        assert_eq!(quoted("my 'root'".as_ref()), r"'my '\''root'\'''");
    }
}
