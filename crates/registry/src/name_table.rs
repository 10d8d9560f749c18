use std::collections::BTreeMap;

/// Values by name, for names that are few and known beforehand.
///
/// Only these names are in the table, so a look-up of a name from untrusted arguments compares at most as many entries as
/// they happen to collide.
#[derive(Clone, Debug)]
pub(crate) struct NameTable<T> {
    entries: Vec<NamedValue<T>>,
    /// Positions in `entries` by hash, each behind by one; zero is free. At most half of them are taken.
    slots: Vec<u32>,
    shift: u32,
}

#[derive(Clone, Debug)]
struct NamedValue<T> {
    head: NameHead,
    name: String,
    value: T,
}

/// Length of a name with its first and its last bytes: all of a name of up to sixteen bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameHead {
    len: usize,
    first: u64,
    last: u64,
}

impl<T> NameTable<T> {
    pub(crate) fn new(values: BTreeMap<String, T>) -> Self {
        let count = values.len().saturating_mul(2).next_power_of_two().max(2);
        let shift = 64_u32.saturating_sub(count.trailing_zeros());
        let mut table = Self { entries: Vec::new(), slots: vec![0; count], shift };
        for (name, value) in values {
            let head = NameHead::of(name.as_bytes());
            table.entries.push(NamedValue { head, name, value });
            let position = u32::try_from(table.entries.len()).unwrap_or_default();
            let mut slot = table.slot_of(head);
            while table.slots.get(slot).is_some_and(|taken| *taken > 0) {
                slot = table.next(slot);
            }
            if let Some(free) = table.slots.get_mut(slot) {
                *free = position;
            }
        }
        table
    }

    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        let head = NameHead::of(name.as_bytes());
        let mut slot = self.slot_of(head);
        loop {
            let position = (*self.slots.get(slot)?).checked_sub(1)?;
            let entry = self.entries.get(position as usize)?;
            if entry.head == head && (head.len <= 16 || entry.name == name) {
                return Some(&entry.value);
            }
            slot = self.next(slot);
        }
    }

    #[inline]
    fn slot_of(&self, head: NameHead) -> usize {
        let mixed = head.first ^ head.last.rotate_left(29) ^ head.len as u64;
        usize::try_from(mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift).unwrap_or_default()
    }

    #[inline]
    const fn next(&self, slot: usize) -> usize {
        slot.wrapping_add(1) & self.slots.len().wrapping_sub(1)
    }
}

impl NameHead {
    #[inline]
    fn of(name: &[u8]) -> Self {
        let half = |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes));
        let (first, last) = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => match (name.first_chunk(), name.last_chunk()) {
                (Some(first), Some(last)) => (half(*first), half(*last)),
                _ => (name.iter().fold(0, |word, b| word << 8 | u64::from(*b)), 0),
            },
        };
        Self { len: name.len(), first, last }
    }
}
