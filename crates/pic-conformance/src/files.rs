//! Files of a suite, read up to a limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use countersign_keys::trusted::open_regular;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SuiteFileError {
    #[error("`{}`: {source}", path.display())]
    Missing { path: PathBuf, source: io::Error },
    #[error("`{}`: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is larger than {max} bytes", path.display())]
    TooLarge { path: PathBuf, max: u64 },
}

/// Reads a regular file of at most `max` bytes.
pub(crate) fn read_file(path: &Path, max: u64) -> Result<Vec<u8>, SuiteFileError> {
    let failed = |source: io::Error| {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            SuiteFileError::Missing { path, source }
        } else {
            SuiteFileError::Unreadable { path, source }
        }
    };
    let (file, about) = open_regular(path).map_err(failed)?;
    let bytes = take(&file, max.saturating_add(1)).map_err(failed)?;
    let is_long = u64::try_from(bytes.len()).map_or(true, |len| len > max);
    if about.len() > max || is_long {
        return Err(SuiteFileError::TooLarge { path: path.to_owned(), max });
    }
    Ok(bytes)
}

fn take(file: &File, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
