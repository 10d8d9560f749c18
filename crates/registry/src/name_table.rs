use std::collections::BTreeMap;

use countersign_canonical_json::{Parts, TextPlace};

/// Values by name, for names that are few and known beforehand.
///
/// Only these names are in the table, so a look-up of a name from untrusted arguments compares at most as many entries as
/// they happen to collide.
#[derive(Clone, Debug)]
pub(crate) struct NameTable<T> {
    entries: Vec<(String, T)>,
    /// By hash. At most half of them are taken.
    slots: Vec<Option<Slot>>,
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: NameHead,
    /// Position in `entries`.
    entry: usize,
}

/// The first eight bytes of a name and its length: all of a name of at most eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameHead {
    first: u64,
    len: usize,
}

impl<T> NameTable<T> {
    pub(crate) fn new(values: BTreeMap<String, T>) -> Self {
        let count = values.len().saturating_mul(2).next_power_of_two().max(2);
        let shift = 64_u32.saturating_sub(count.trailing_zeros());
        let mut table = Self { entries: Vec::new(), slots: vec![None; count], shift };
        for (entry, (name, value)) in (0..).zip(values) {
            let head = NameHead::of(&name);
            let mut slot = table.slot_of(head, &name);
            while table.slots.get(slot).is_some_and(Option::is_some) {
                slot = table.next(slot);
            }
            if let Some(free) = table.slots.get_mut(slot) {
                *free = Some(Slot { head, entry });
            }
            table.entries.push((name, value));
        }
        table
    }

    /// Looks up the name at a place that `parts` gave.
    #[inline(always)]
    pub(crate) fn get(&self, parts: &Parts<'_>, name: TextPlace) -> Option<&T> {
        let len = name.len();
        if len <= 8 {
            self.get_short(NameHead { first: parts.first_word(name), len })
        } else {
            self.get_long(parts.text(name))
        }
    }

    #[inline(never)]
    fn get_short(&self, head: NameHead) -> Option<&T> {
        let mut slot = self.slot_of(head, "");
        loop {
            let taken = self.slots.get(slot)?.as_ref()?;
            if taken.head == head {
                return self.entries.get(taken.entry).map(|(_, value)| value);
            }
            slot = self.next(slot);
        }
    }

    #[inline(never)]
    fn get_long(&self, name: &str) -> Option<&T> {
        let head = NameHead::of(name);
        let mut slot = self.slot_of(head, name);
        loop {
            let taken = self.slots.get(slot)?.as_ref()?;
            let (known, value) = self.entries.get(taken.entry)?;
            if taken.head == head && known == name {
                return Some(value);
            }
            slot = self.next(slot);
        }
    }

    /// The slot of a name's hash, which is over its head and the last eight bytes of a longer name.
    #[inline(always)]
    fn slot_of(&self, head: NameHead, name: &str) -> usize {
        let last = name.as_bytes().last_chunk().filter(|_| head.len > 8).copied();
        let last = last.map_or(0, u64::from_le_bytes);
        let mixed = head.first ^ last.rotate_left(29) ^ head.len as u64;
        usize::try_from(mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_shr(self.shift))
            .unwrap_or_default()
    }

    #[inline]
    const fn next(&self, slot: usize) -> usize {
        slot.wrapping_add(1) & self.slots.len().wrapping_sub(1)
    }
}

impl NameHead {
    fn of(name: &str) -> Self {
        let places = [0, 8, 16, 24, 32, 40, 48, 56];
        let first = name.bytes().zip(places).fold(0, |word, (b, place)| word | u64::from(b) << place);
        Self { first, len: name.len() }
    }
}
