//! Input from a file or standard input, and output files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use countersign_host::files::{exists, take_file, unreadable, within};
use countersign_keys::SigningKey;
use countersign_keys::file::read_signing_key;

use crate::failure::Failure;

pub(crate) use countersign_host::files::{
    REGISTRY_BYTES, Replace, TEXT_BYTES, read_file, read_text_file, read_trusted_file, write_file,
};

/// Source of input: a file, or `-` for standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stdin,
    File(PathBuf),
}

impl FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "-" { Self::Stdin } else { Self::File(PathBuf::from(text)) })
    }
}

impl Source {
    /// Reads the first `max` bytes, for a parser that has its own limit. The file may be a pipe, such as that of a
    /// shell's process substitution.
    pub(crate) fn read_prefix(&self, max: u64) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Stdin => take_stdin(max),
            Self::File(path) => Ok(take_file(&open(path)?, path, max)?),
        }
    }
}

fn read_stdin(max: u64) -> Result<Vec<u8>, Failure> {
    Ok(within(take_stdin(max.saturating_add(1))?, max, "standard input")?)
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| unreadable(path, &error).into())
}

fn take_stdin(max: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(max).read_to_end(&mut bytes).map_err(|error| {
        Failure::new("FILE_UNREADABLE", format!("standard input cannot be read: {error}"))
    })?;
    Ok(bytes)
}

/// Returns a text from the command line, or from standard input if it is `-`. One line end at the end of standard input
/// is removed.
pub(crate) fn read_text(given: &str) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::from_utf8(read_stdin(TEXT_BYTES)?)
        .map_err(|_| Failure::new("FILE_NOT_TEXT", "standard input is not UTF-8"))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Fails early if the file exists and must not be replaced, so that no work is wasted.
pub(crate) fn must_be_free(path: &Path, replace: Replace) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Ok(_) if replace == Replace::Never => Err(exists(path).into()),
        _ => Ok(()),
    }
}

/// Reads the signing keys of an option.
pub(crate) fn read_signers(paths: &[PathBuf]) -> Result<Vec<SigningKey>, Failure> {
    paths.iter().map(|path| read_signer(path)).collect()
}

fn read_signer(path: &Path) -> Result<SigningKey, Failure> {
    read_signing_key(path).map_err(|error| Failure::from(error).about(path.display()))
}
