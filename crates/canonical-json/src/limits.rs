/// The most bytes that any limits can allow: 256 MiB, so that offsets fit the tape's 32 bits.
const MAX_BYTES: usize = 256 << 20;

/// The most nesting that any limits can allow, so that whoever walks a value may recurse.
const MAX_DEPTH: usize = 128;

/// Why a limit cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} can be at most {max}")]
#[non_exhaustive]
pub struct LimitsError {
    /// Which limit was to be set.
    pub what: &'static str,
    /// The most that it can be.
    pub max: usize,
}

impl LimitsError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "JSON_LIMIT_OUT_OF_RANGE"
    }
}

/// Bounds what one reading may take. Each limit is the largest value that is still accepted.
///
/// While it reads, a [`Reader`](crate::Reader) holds at most about 30 bytes for each byte of input, whatever the
/// input is.
///
/// ```
/// use countersign_canonical_json::{Limits, Recipe, read};
/// let flat = Limits::default().with_max_depth(1)?;
/// let refused = read(b"[[]]", Recipe::Jcs1, &flat);
/// assert_eq!(refused.map_err(|e| (e.code(), e.offset())).err(), Some(("JSON_TOO_DEEP", 1)));
/// # Ok::<(), countersign_canonical_json::LimitsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    bytes: usize,
    depth: usize,
    width: usize,
}

/// 1 MiB (arguments are for acting on, not for moving data), depth 32 (as deep as tool schemas go, with room), and
/// 65,536 members or elements in one container.
impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1 << 20, depth: 32, width: 1 << 16 }
    }
}

impl Limits {
    /// The widest limits there are: 256 MiB, depth 128, any width. For bytes that are the program's own.
    #[must_use]
    pub const fn hard_caps() -> Self {
        Self { bytes: MAX_BYTES, depth: MAX_DEPTH, width: MAX_BYTES }
    }

    /// Sets the most bytes of input.
    ///
    /// # Errors
    /// [`LimitsError`] above 256 MiB.
    pub const fn with_max_bytes(self, bytes: usize) -> Result<Self, LimitsError> {
        if bytes > MAX_BYTES {
            return Err(LimitsError { what: "the byte limit", max: MAX_BYTES });
        }
        Ok(Self { bytes, ..self })
    }

    /// Sets the most arrays and objects that may be open at once. With 0, only scalars are read.
    ///
    /// # Errors
    /// [`LimitsError`] above 128.
    pub const fn with_max_depth(self, depth: usize) -> Result<Self, LimitsError> {
        if depth > MAX_DEPTH {
            return Err(LimitsError { what: "the depth limit", max: MAX_DEPTH });
        }
        Ok(Self { depth, ..self })
    }

    /// Sets the most members of one object and elements of one array.
    ///
    /// # Errors
    /// [`LimitsError`] above 268,435,456, more than 256 MiB can hold.
    pub const fn with_max_width(self, width: usize) -> Result<Self, LimitsError> {
        if width > MAX_BYTES {
            return Err(LimitsError { what: "the width limit", max: MAX_BYTES });
        }
        Ok(Self { width, ..self })
    }

    /// The most bytes of input.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.bytes
    }

    /// The most arrays and objects that may be open at once.
    #[must_use]
    pub const fn max_depth(&self) -> usize {
        self.depth
    }

    /// The most members or elements of one container.
    #[must_use]
    pub const fn max_width(&self) -> usize {
        self.width
    }
}
