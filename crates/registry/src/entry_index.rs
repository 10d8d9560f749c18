use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hash, Hasher};

/// Entries with an index of their ids. A look-up costs the same in a registry of any size.
#[derive(Debug)]
pub(crate) struct EntryIndex<K, V> {
    list: Vec<V>,
    places: HashMap<K, usize, IdHashes>,
}

impl<K: Hash + Ord + Clone, V> EntryIndex<K, V> {
    pub(crate) fn with_room_for(entries: usize) -> Self {
        Self {
            list: Vec::with_capacity(entries),
            places: HashMap::with_capacity_and_hasher(entries, IdHashes::default()),
        }
    }

    /// Adds an entry. Returns `false` and adds nothing if there is one with this id.
    pub(crate) fn add(&mut self, id: K, entry: V) -> bool {
        let Entry::Vacant(vacant) = self.places.entry(id) else { return false };
        vacant.insert(self.list.len());
        self.list.push(entry);
        true
    }

    /// Brings the entries into the order of their ids, in which a signed registry usually has them.
    pub(crate) fn sort(&mut self, id: impl Fn(&V) -> &K) {
        if self.list.is_sorted_by(|one, other| id(one) <= id(other)) {
            return;
        }
        self.list.sort_unstable_by(|one, other| id(one).cmp(id(other)));
        self.places = self.list.iter().map(|entry| id(entry).clone()).zip(0..).collect();
    }

    pub(crate) fn get(&self, id: &K) -> Option<&V> {
        self.places.get(id).and_then(|place| self.list.get(*place))
    }

    pub(crate) fn contains(&self, id: &K) -> bool {
        self.places.contains_key(id)
    }

    pub(crate) fn entries(&self) -> &[V] {
        &self.list
    }

    pub(crate) fn into_entries(self) -> Vec<V> {
        self.list
    }

    pub(crate) fn map<W>(self, change: impl FnMut(V) -> W) -> EntryIndex<K, W> {
        EntryIndex { list: self.list.into_iter().map(change).collect(), places: self.places }
    }
}

/// Hashes the short texts of ids, under a seed of its own.
///
/// why: the standard hasher takes most of a look-up. Only an operator's signature adds ids, so that an agent cannot fill a
/// bucket.
#[derive(Clone, Debug)]
pub(crate) struct IdHashes {
    seed: u64,
}

impl Default for IdHashes {
    fn default() -> Self {
        Self { seed: RandomState::new().hash_one(0_u8) }
    }
}

impl BuildHasher for IdHashes {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher { state: self.seed }
    }
}

#[derive(Debug)]
pub(crate) struct IdHasher {
    state: u64,
}

impl IdHasher {
    fn add(&mut self, word: u64) {
        // An odd number with even bits: those of the golden ratio.
        let product = u128::from(self.state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (low, high) = (product & u128::from(u64::MAX), product >> 64);
        self.state = u64::try_from(low ^ high).unwrap_or_default();
    }
}

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        // The last eight bytes overlap the word before, which takes fewer steps than the rest alone.
        let last = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        // The length tells a text from one with zeros behind it.
        self.add(last.rotate_left(32) ^ bytes.len() as u64);
    }

    /// A text ends with this byte. Its length is hashed instead.
    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::EntryIndex;

    #[test]
    fn an_index_finds_every_entry_after_sorting() {
        let mut index = EntryIndex::with_room_for(0);
        for number in 0..1_000_u32 {
            let id = format!("tool-{}", number * 7 % 1_000);
            assert!(index.add(id.clone(), id));
        }
        assert!(!index.add("tool-7".to_owned(), "again".to_owned()));
        index.sort(|entry| entry);
        assert!(index.entries().is_sorted());
        for number in 0..1_000_u32 {
            let id = format!("tool-{number}");
            assert_eq!(index.get(&id), Some(&id));
        }
        assert_eq!(index.get(&"tool-1000".to_owned()), None);
    }

    #[test]
    fn texts_that_share_a_start_have_other_hashes() {
        use std::hash::BuildHasher as _;
        let hashes = super::IdHashes::default();
        let texts = ["", "\0", "\0\0", "a", "a\0", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefg"];
        let mut seen: Vec<u64> = texts.iter().map(|text| hashes.hash_one(text)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), texts.len());
    }
}
