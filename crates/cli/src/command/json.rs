use clap::{Args, Subcommand};
use countersign_canonical_json::{Canonical, Limits, LimitsError, Recipe, digest, read};
use countersign_host::inputs::malformed;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::files::Source;
use crate::output::Output;

/// Read JSON strictly: canonical bytes and digests.
///
/// Input that two parsers could read differently is refused: repeated names, lone surrogates, numbers that a double
/// does not hold, trailing data. What is left has exactly one canonical text (RFC 8785), and its SHA-256 is what
/// approvals bind.
#[derive(Debug, Subcommand)]
pub(crate) enum Json {
    /// Write the canonical bytes, and nothing else.
    #[command(after_help = "Example:\n  echo '{\"b\": 1.0, \"a\": [true]}' | countersign json canonicalize")]
    Canonicalize(Input),
    /// Write the SHA-256 of the canonical bytes, in lower-case hexadecimal.
    #[command(after_help = "Example:\n  countersign json digest arguments.json")]
    Digest(Input),
}

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// File to read; `-` is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    file: Source,
    /// How to read: `jcs-1` refuses numbers that a double cannot hold, `rfc8785` rounds them.
    #[arg(long, default_value_t = Recipe::Jcs1)]
    recipe: Recipe,
    /// Largest input, in bytes.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_bytes())]
    max_bytes: usize,
    /// Deepest nesting of arrays and objects.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_depth())]
    max_depth: usize,
    /// Most members of one object, and elements of one array.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_width())]
    max_width: usize,
}

impl Json {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Canonicalize(input) => {
                let canonical = input.read()?;
                if out.is_json() {
                    out.json(&json!({
                        "ok": true,
                        "recipe": input.recipe,
                        "canonical": canonical.as_str(),
                        "digest": canonical.digest(),
                    }))?;
                } else {
                    out.bytes(canonical.bytes())?;
                }
            }
            Self::Digest(input) => {
                let (bytes, limits) = input.bytes()?;
                let digest = digest(&bytes, input.recipe, &limits).map_err(|error| malformed(&error))?;
                let report = json!({"ok": true, "recipe": input.recipe, "digest": digest});
                out.result(&report, &digest.to_string())?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Input {
    fn bytes(&self) -> Result<(Vec<u8>, Limits), Failure> {
        let limits = self.limits().map_err(|error| Failure::usage(error.to_string()))?;
        // One byte more than the reader accepts, so that the reader refuses oversized input with its own code.
        let cap = u64::try_from(self.max_bytes).unwrap_or(u64::MAX).saturating_add(1);
        Ok((self.file.read_prefix(cap)?, limits))
    }

    fn read(&self) -> Result<Canonical, Failure> {
        let (bytes, limits) = self.bytes()?;
        Ok(read(&bytes, self.recipe, &limits).map_err(|error| malformed(&error))?)
    }

    fn limits(&self) -> Result<Limits, LimitsError> {
        Limits::default().bytes(self.max_bytes)?.depth(self.max_depth)?.width(self.max_width)
    }
}
