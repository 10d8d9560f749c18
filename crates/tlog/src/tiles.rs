use std::io;

use countersign_merkle::{Frontier, LeafHash, NodeHash};

use crate::{Checkpoint, CheckpointError, LogKey};

/// Number of hashes or entries in a full tile.
const WIDTH: usize = 256;

/// Bytes of a hash.
const NODE: usize = 32;

/// Reason why a log cannot be written as tiles.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TilesError {
    /// A file could not be written.
    #[error("a tile cannot be written")]
    Write(#[source] io::Error),
    /// An earlier file could not be written, so the files are incomplete.
    #[error("an earlier tile could not be written")]
    Broken,
    /// The entry is longer than 65,535 bytes.
    #[error("entry too long for a tile")]
    TooLong,
    /// The note is not a checkpoint of the log.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint does not belong to the entries that were written.
    #[error("the checkpoint does not match the entries")]
    Head,
    /// A file of an earlier export is not what the log's entries hash to.
    #[error("`{path}` of an earlier export does not match this log")]
    Changed {
        /// Path of the file in the export.
        path: String,
    },
}

impl TilesError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Write(_) | Self::Broken => "TILES_WRITE",
            Self::TooLong => "TILES_TOO_LONG",
            Self::Checkpoint(error) => error.code(),
            Self::Head => "TILES_HEAD",
            Self::Changed { .. } => "TILES_CHANGED",
        }
    }
}

countersign_core::coded!(TilesError);

/// Converts a log into files that any web server can serve and any client of C2SP tlog-tiles can audit: `checkpoint`,
/// tiles of hashes `tile/<level>/<index>[.p/<width>]` and bundles of entries `tile/entries/<index>[.p/<width>]`.
///
/// It writes no file itself. It calls the given function with every path, relative and with `/` between its parts, and
/// its bytes. A full tile comes with its last entry and is the same in every later export, so an existing one need not
/// be written again. Partial tiles come at the end, and `checkpoint` comes last. A caller that replaces that file
/// atomically never serves a checkpoint whose tiles are missing.
///
/// It keeps fewer than 256 hashes of each level and one bundle in memory, less than 17 MB.
///
/// ```
/// use countersign_tlog::{Checkpoint, LogKey, TileWriter};
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
/// use countersign_merkle::{LeafHash, MerkleTree};
/// let (origin, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
/// let tree: MerkleTree = [LeafHash::of(b"{}")].into_iter().collect();
/// let note = Checkpoint::new(origin.clone(), tree.head()).sign(&key);
/// let mut files = Vec::new();
/// let mut tiles = TileWriter::new(|path: &str, bytes: &[u8]| Ok(files.push((path.to_owned(), bytes.len()))));
/// tiles.append(b"{}")?;
/// tiles.finish(&note, &LogKey::new(origin, key.verifying_key()))?;
/// assert_eq!(files[..2], [("tile/entries/000.p/1".to_owned(), 4), ("tile/0/000.p/1".to_owned(), 32)]);
/// assert_eq!(files[2].0, "checkpoint");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TileWriter<W> {
    write: W,
    /// Number of entries.
    size: u64,
    /// Hashes of each level that are in no full tile yet, the leaves first.
    levels: Vec<Level>,
    /// Entries that are in no full bundle yet, in the format of a bundle.
    bundle: Vec<u8>,
    state: State,
}

#[derive(Debug, Default)]
struct Level {
    /// Number of full tiles.
    full: u64,
    hashes: Vec<NodeHash>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Whole,
    Broken,
}

impl<W: FnMut(&str, &[u8]) -> io::Result<()>> TileWriter<W> {
    /// Starts with the first entry of a log.
    #[must_use]
    pub const fn new(write: W) -> Self {
        Self { write, size: 0, levels: Vec::new(), bundle: Vec::new(), state: State::Whole }
    }

    /// Resumes after an earlier export of the log, whose files `read` returns. Returns `None` if they do not hash to
    /// its checkpoint. It reads and verifies the last bundle of entries and the last tile of each level, but not the
    /// full ones: [`verify_last_full`](Self::verify_last_full) does.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use countersign_tlog::{Checkpoint, LogKey, TileWriter};
    /// use countersign_keys::SigningKey;
    /// use countersign_tlog::note::KeyName;
    /// use countersign_merkle::{LeafHash, MerkleTree};
    /// let (origin, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
    /// let tree: MerkleTree = [LeafHash::of(b"{}")].into_iter().collect();
    /// let earlier = Checkpoint::new(origin.clone(), tree.head());
    /// let mut files = BTreeMap::new();
    /// let mut tiles = TileWriter::new(|path: &str, bytes: &[u8]| Ok(drop(files.insert(path.to_owned(), bytes.to_vec()))));
    /// tiles.append(b"{}")?;
    /// tiles.finish(&earlier.sign(&key), &LogKey::new(origin, key.verifying_key()))?;
    /// let tiles = TileWriter::resume(|_: &str, _: &[u8]| Ok(()), &earlier, |path| files.get(path).cloned());
    /// assert_eq!(tiles.map(|tiles| tiles.size()), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn resume(
        write: W,
        earlier: &Checkpoint,
        mut read: impl FnMut(&str) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let mut this = Self { size: earlier.size(), ..Self::new(write) };
        let mut there = this.size;
        for at in 0.. {
            if there == 0 {
                break;
            }
            let full = there.unbounded_shr(WIDTH.ilog2());
            let partial = there.saturating_sub(full.saturating_mul(WIDTH as u64));
            let mut hashes = Vec::new();
            if partial > 0 && at == 0 {
                this.bundle = read(&format!("tile/entries/{}.p/{partial}", number(full)))?;
                hashes = leaves_of(&this.bundle)?;
            } else if partial > 0 {
                let tile = read(&format!("tile/{at}/{}.p/{partial}", number(full)))?;
                hashes = nodes_of(&tile)?;
            }
            if hashes.len() as u64 != partial {
                return None;
            }
            this.levels.push(Level { full, hashes });
            there = full;
        }
        (this.frontier()?.head() == *earlier.head()).then_some(this)
    }

    /// Verifies the last full bundle of entries, and the last full tile of each level, of a resumed export, whose files
    /// `read` returns. Earlier full files are not read.
    ///
    /// # Errors
    /// [`TilesError::Changed`], with the path of the file.
    pub fn verify_last_full(&self, mut read: impl FnMut(&str) -> Option<Vec<u8>>) -> Result<(), TilesError> {
        let mut verify = |path: String, hashes: fn(&[u8]) -> Option<Vec<NodeHash>>, due: Option<NodeHash>| {
            let hashes = read(&path).and_then(|bytes| hashes(&bytes)).filter(|hashes| hashes.len() == WIDTH);
            let hashes = hashes.filter(|hashes| root(hashes) == due);
            hashes.ok_or(TilesError::Changed { path })
        };
        // Root of the last full tile below, as the level above has it.
        let mut due = None;
        for (at, level) in self.levels.iter().enumerate().rev() {
            let mut last = level.hashes.last().copied();
            if let Some(index) = level.full.checked_sub(1) {
                let hashes = verify(format!("tile/{at}/{}", number(index)), nodes_of, due)?;
                if at == 0 {
                    verify(format!("tile/entries/{}", number(index)), leaves_of, due)?;
                }
                last = last.or_else(|| hashes.last().copied());
            }
            due = last;
        }
        Ok(())
    }

    /// Number of entries.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Appends the next entry of the log: the line of a record, without its newline.
    ///
    /// # Errors
    /// [`TilesError::TooLong`], which changes nothing; [`TilesError::Write`], and [`TilesError::Broken`] from then on.
    pub fn append(&mut self, entry: &[u8]) -> Result<(), TilesError> {
        let length = u16::try_from(entry.len()).map_err(|_| TilesError::TooLong)?;
        if self.state == State::Broken {
            return Err(TilesError::Broken);
        }
        self.bundle.extend_from_slice(&length.to_be_bytes());
        self.bundle.extend_from_slice(entry);
        self.size = self.size.saturating_add(1);
        let (full, partial) = self.leaves();
        if partial.saturating_add(1) == WIDTH {
            let bundle = std::mem::take(&mut self.bundle);
            self.put(&format!("tile/entries/{}", number(full)), &bundle)?;
        }
        self.push(LeafHash::of(entry).into())
    }

    /// Returns the number of full tiles of leaves, and of leaves that are in none of them.
    fn leaves(&self) -> (u64, usize) {
        self.levels.first().map_or((0, 0), |leaves| (leaves.full, leaves.hashes.len()))
    }

    /// Adds a hash to its level, and the root of each full tile to the level above.
    fn push(&mut self, leaf: NodeHash) -> Result<(), TilesError> {
        let mut hash = leaf;
        for at in 0.. {
            if self.levels.len() == at {
                self.levels.push(Level::default());
            }
            let Some(level) = self.levels.get_mut(at) else { break };
            level.hashes.push(hash);
            if level.hashes.len() < WIDTH {
                break;
            }
            let (index, hashes) = (level.full, std::mem::take(&mut level.hashes));
            level.full = index.saturating_add(1);
            self.put(&format!("tile/{at}/{}", number(index)), &tile(&hashes))?;
            let Some(root) = root(&hashes) else { break };
            hash = root;
        }
        Ok(())
    }

    /// Writes the partial tiles, and the checkpoint if it belongs to exactly these entries.
    ///
    /// # Errors
    /// [`TilesError`] if the note belongs to another log or to other entries, or a file cannot be written.
    pub fn finish(mut self, note: &str, log: &LogKey) -> Result<Checkpoint, TilesError> {
        if self.state == State::Broken {
            return Err(TilesError::Broken);
        }
        let checkpoint = Checkpoint::verify(note, log)?;
        if self.frontier().is_none_or(|frontier| &frontier.head() != checkpoint.head()) {
            return Err(TilesError::Head);
        }
        let (full, partial) = self.leaves();
        if partial > 0 {
            let bundle = std::mem::take(&mut self.bundle);
            self.put(&format!("tile/entries/{}.p/{partial}", number(full)), &bundle)?;
        }
        for (at, level) in std::mem::take(&mut self.levels).iter().enumerate() {
            if !level.hashes.is_empty() {
                let path = format!("tile/{at}/{}.p/{}", number(level.full), level.hashes.len());
                self.put(&path, &tile(&level.hashes))?;
            }
        }
        self.put("checkpoint", note.as_bytes())?;
        Ok(checkpoint)
    }

    /// Returns the tree of the entries, from the hashes that are in no full tile: the higher a level, the larger its
    /// subtrees.
    fn frontier(&self) -> Option<Frontier> {
        let mut peaks = Vec::new();
        for level in self.levels.iter().rev() {
            let mut rest = level.hashes.as_slice();
            while let Some(size) = rest.len().checked_ilog2() {
                let (subtree, others) = rest.split_at_checked(1_usize.checked_shl(size)?)?;
                peaks.push(root(subtree)?);
                rest = others;
            }
        }
        Frontier::from_parts(self.size, peaks).ok()
    }

    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), TilesError> {
        (self.write)(path, bytes).map_err(|error| {
            self.state = State::Broken;
            TilesError::Write(error)
        })
    }
}

/// Iterates over the full files of an export of `size` entries. No later export changes them.
pub fn full_tiles(size: u64) -> impl Iterator<Item = String> {
    let bundles =
        (0..size.unbounded_shr(WIDTH.ilog2())).map(|index| format!("tile/entries/{}", number(index)));
    let levels = (0..8_u32).flat_map(move |level| {
        let full = size.unbounded_shr(level.saturating_add(1).saturating_mul(WIDTH.ilog2()));
        (0..full).map(move |index| format!("tile/{level}/{}", number(index)))
    });
    bundles.chain(levels)
}

/// Returns the leaf hashes of the entries in a bundle.
fn leaves_of(mut bundle: &[u8]) -> Option<Vec<NodeHash>> {
    let mut leaves = Vec::new();
    while !bundle.is_empty() {
        let (length, rest) = bundle.split_first_chunk()?;
        let (entry, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        leaves.push(LeafHash::of(entry).into());
        bundle = rest;
    }
    Some(leaves)
}

/// Returns the hashes in a tile.
fn nodes_of(tile: &[u8]) -> Option<Vec<NodeHash>> {
    tile.chunks(NODE).map(|bytes| bytes.try_into().ok()).collect()
}

/// Returns the number of a tile as in its path: parts of three digits, with an `x` before every part but the last.
pub(crate) fn number(index: u64) -> String {
    let mut text = format!("{:03}", index % 1_000);
    let mut rest = index / 1_000;
    while rest > 0 {
        text = format!("x{:03}/{text}", rest % 1_000);
        rest /= 1_000;
    }
    text
}

fn tile(hashes: &[NodeHash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
}

/// Returns the root over a power of two of hashes, pair by pair; `None` for an empty list.
fn root(hashes: &[NodeHash]) -> Option<NodeHash> {
    let mut row = hashes.to_vec();
    while row.len() > 1 {
        row =
            row.chunks_exact(2).filter_map(|pair| Some(NodeHash::of(pair.first()?, pair.last()?))).collect();
    }
    row.first().copied()
}
