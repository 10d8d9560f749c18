use std::io::Write as _;
use std::path::Path;

use countersign_clients::ClientFile;
use countersign_host::files::{read_file, unreadable, unwritable};

use super::targets::Target;
use crate::failure::Failure;

/// Most bytes of a configuration: that of Claude Code also keeps histories.
const MAX_BYTES: u64 = 64 << 20;

/// A configuration that was read, and that may be written.
pub(crate) struct OpenClientFile {
    pub(crate) target: Target,
    pub(crate) content: ClientFile,
}

impl OpenClientFile {
    /// Reads a configuration, as [`read_client_text`] does.
    pub(crate) fn open(target: Target) -> Result<Self, Failure> {
        let path = &target.path;
        let text = read_client_text(path)?;
        let content = ClientFile::read(path, text);
        let content = content.map_err(|error| Failure::from(error).about(path.display()))?;
        Ok(Self { target, content })
    }
}

/// Reads a client's file. A link, or a file that is read-only, is refused.
pub(super) fn read_client_text(path: &Path) -> Result<String, Failure> {
    let about = path.symlink_metadata().map_err(|error| unreadable(path, &error))?;
    if about.is_symlink() {
        let text = "a symbolic link; name the file that it leads to";
        return Err(Failure::refused("CLIENT_FILE_LINKED", text).about(path.display()));
    }
    if about.permissions().readonly() {
        return Err(Failure::refused("CLIENT_FILE_READ_ONLY", "read-only").about(path.display()));
    }
    String::from_utf8(read_file(path, MAX_BYTES)?)
        .map_err(|_| Failure::new("FILE_NOT_TEXT", "not UTF-8").about(path.display()))
}

/// Puts the new content in the file's place, as [`write_client_text`] does.
pub(crate) fn write_client(before: &OpenClientFile, after: &ClientFile) -> Result<(), Failure> {
    write_client_text(&before.target.path, before.content.text(), after.text())
}

/// Puts the new text in the file's place, with its mode, unless another program changed the file meanwhile.
pub(super) fn write_client_text(path: &Path, before: &str, after: &str) -> Result<(), Failure> {
    if before == after {
        return Ok(());
    }
    let folder =
        path.parent().ok_or_else(|| Failure::new("FILE_UNWRITABLE", "no folder").about(path.display()))?;
    let failed = |error: std::io::Error| unwritable(path, &error);
    let mode = path.metadata().map_err(failed)?.permissions();
    let made = tempfile::Builder::new().prefix(".countersign-").tempfile_in(folder);
    let mut temporary = made.map_err(failed)?;
    temporary.write_all(after.as_bytes()).map_err(failed)?;
    temporary.as_file().set_permissions(mode).map_err(failed)?;
    temporary.as_file().sync_all().map_err(failed)?;
    if read_file(path, MAX_BYTES)? != before.as_bytes() {
        let text = "another program changed it meanwhile; nothing was written to it: run this again";
        return Err(Failure::new("CLIENT_FILE_CHANGED", text).about(path.display()));
    }
    temporary.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
