/// Hard cap on the input: 256 MiB, so that offsets fit the tape's 32 bits.
const MAX_BYTES: usize = 256 << 20;

/// Hard cap on nesting, so that code that walks a value may recurse.
pub(crate) const MAX_DEPTH: usize = 128;

/// A limit exceeds its hard cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} can be at most {max}")]
#[non_exhaustive]
pub struct LimitsError {
    /// Name of the limit.
    pub what: &'static str,
    /// The hard cap.
    pub max: usize,
}

impl LimitsError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "JSON_LIMIT_OUT_OF_RANGE"
    }
}

countersign_core::coded!(LimitsError);

/// Limits of one reading. Each is the largest accepted value.
///
/// While reading, a [`Reader`](crate::Reader) uses at most about 30 bytes of memory per byte of input.
///
/// ```
/// use countersign_canonical_json::{Limits, Recipe, read};
/// let flat = Limits::default().depth(1)?;
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

/// 1 MiB (arguments are not a bulk transport), depth 32 (deeper than known tool schemas), and 65,536 members or
/// elements per container.
impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1 << 20, depth: 32, width: 1 << 16 }
    }
}

impl Limits {
    /// The hard caps: 256 MiB, depth 128, any width. For the program's own bytes.
    #[must_use]
    pub const fn hard_caps() -> Self {
        Self { bytes: MAX_BYTES, depth: MAX_DEPTH, width: MAX_BYTES }
    }

    /// Sets the maximum size of the input, in bytes.
    ///
    /// # Errors
    /// [`LimitsError`] above 256 MiB.
    pub const fn bytes(self, bytes: usize) -> Result<Self, LimitsError> {
        if bytes > MAX_BYTES {
            return Err(LimitsError { what: "the byte limit", max: MAX_BYTES });
        }
        Ok(Self { bytes, ..self })
    }

    /// Sets the maximum nesting of arrays and objects. 0 allows scalars only.
    ///
    /// # Errors
    /// [`LimitsError`] above 128.
    pub const fn depth(self, depth: usize) -> Result<Self, LimitsError> {
        if depth > MAX_DEPTH {
            return Err(LimitsError { what: "the depth limit", max: MAX_DEPTH });
        }
        Ok(Self { depth, ..self })
    }

    /// Sets the maximum number of members or elements of one container.
    ///
    /// # Errors
    /// [`LimitsError`] above 268,435,456.
    pub const fn width(self, width: usize) -> Result<Self, LimitsError> {
        if width > MAX_BYTES {
            return Err(LimitsError { what: "the width limit", max: MAX_BYTES });
        }
        Ok(Self { width, ..self })
    }

    /// Maximum size of the input, in bytes.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.bytes
    }

    /// Maximum nesting of arrays and objects.
    #[must_use]
    pub const fn max_depth(&self) -> usize {
        self.depth
    }

    /// Maximum number of members or elements of one container.
    #[must_use]
    pub const fn max_width(&self) -> usize {
        self.width
    }
}
