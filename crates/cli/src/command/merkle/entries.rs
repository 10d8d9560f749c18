use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use base64ct::{Base64, Encoding as _};
use clap::Args;
use countersign_merkle::LeafHash;

use crate::failure::Failure;
use crate::files::Source;
use countersign_host::lines::{Line, next_line};

/// Most bytes of a JSON list of entries, which is read as a whole.
const LIST_BYTES: u64 = 64 << 20;
/// Most bytes of a line.
const LINE_BYTES: usize = 16 << 20;

/// Where entries come from.
#[derive(Debug, Args)]
pub(super) struct EntrySource {
    /// Take each line of this file as an entry, without its line end; `-` is standard input. Without it, standard input is
    /// a JSON array of entries in Base64, with padding.
    #[arg(long, value_name = "FILE")]
    lines: Option<Source>,
}

impl EntrySource {
    /// Passes the hash of each entry to `take`, in order.
    pub(super) fn each(&self, mut take: impl FnMut(LeafHash) -> Result<(), Failure>) -> Result<(), Failure> {
        match &self.lines {
            None => list()?.iter().try_for_each(|entry| take(LeafHash::of(&decode(entry)?))),
            Some(Source::Stdin) => each_line(&mut io::stdin().lock(), "standard input", take),
            Some(Source::File(path)) => {
                let mut file = BufReader::new(open(path)?);
                each_line(&mut file, &path.display().to_string(), take)
            }
        }
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| unreadable(&path.display().to_string(), &error))
}

fn each_line(
    from: &mut impl BufRead,
    name: &str,
    mut take: impl FnMut(LeafHash) -> Result<(), Failure>,
) -> Result<(), Failure> {
    while let Some(line) = next_line(from, LINE_BYTES).map_err(|error| unreadable(name, &error))? {
        match line {
            Line::Whole(entry) => take(LeafHash::of(&entry))?,
            Line::TooLong => {
                return Err(
                    Failure::new("MERKLE_ENTRY_TOO_LONG", "line too long: more than 16 MiB").about(name)
                );
            }
        }
    }
    Ok(())
}

fn list() -> Result<Vec<String>, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(LIST_BYTES.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| unreadable("standard input", &error))?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > LIST_BYTES) {
        return Err(Failure::new("FILE_TOO_LARGE", "list of entries too large: at most 64 MiB; see --lines"));
    }
    serde_json::from_slice(&bytes).map_err(|error| malformed("array of strings expected", &error))
}

/// Failure for malformed input with its line and column. It omits the content, which may be long or untrusted.
pub(super) fn malformed(what: &str, error: &serde_json::Error) -> Failure {
    let why = if error.is_data() { what } else { "not JSON" };
    let text = format!("{why}, at line {} column {}", error.line(), error.column());
    Failure::new("MERKLE_INPUT", text)
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { "FILE_MISSING" } else { "FILE_UNREADABLE" };
    Failure::new(code, error.to_string()).about(name)
}

/// Decodes standard Base64 with padding, in canonical form.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, Failure> {
    Base64::decode_vec(text)
        .map_err(|_| Failure::new("MERKLE_BASE64", "string is not standard Base64 with padding"))
}

/// Encodes a hash in the form that [`decode`] reads.
pub(super) fn encode(hash: &[u8; 32]) -> String {
    Base64::encode_string(hash)
}
