//! The definitions of RFC 9162, section 2.1, transcribed literally: recursive, over lists of entries.

use sha2::{Digest as _, Sha256};

pub(crate) type Hash = [u8; 32];

fn split(n: usize) -> usize {
    let mut k = 1;
    while k * 2 < n {
        k *= 2;
    }
    k
}

/// MTH(D\[n\]), section 2.1.1.
pub(crate) fn root(entries: &[Vec<u8>]) -> Hash {
    match entries {
        [] => Sha256::digest([]).into(),
        [entry] => Sha256::digest([&[0x00], entry.as_slice()].concat()).into(),
        _ => {
            let (left, right) = entries.split_at(split(entries.len()));
            Sha256::digest([&[0x01], root(left).as_slice(), root(right).as_slice()].concat()).into()
        }
    }
}

/// PATH(m, D\[n\]), section 2.1.3.1.
pub(crate) fn path(m: usize, entries: &[Vec<u8>]) -> Vec<Hash> {
    if entries.len() == 1 {
        return Vec::new();
    }
    let k = split(entries.len());
    let (left, right) = entries.split_at(k);
    let (mut hashes, last) =
        if m < k { (path(m, left), root(right)) } else { (path(m - k, right), root(left)) };
    hashes.push(last);
    hashes
}

/// PROOF(m, D\[n\]), section 2.1.4.1.
pub(crate) fn proof(m: usize, entries: &[Vec<u8>]) -> Vec<Hash> {
    subproof(m, entries, true)
}

fn subproof(m: usize, entries: &[Vec<u8>], known: bool) -> Vec<Hash> {
    if m == entries.len() {
        return if known { Vec::new() } else { vec![root(entries)] };
    }
    let k = split(entries.len());
    let (left, right) = entries.split_at(k);
    let (mut hashes, last) = if m <= k {
        (subproof(m, left, known), root(right))
    } else {
        (subproof(m - k, right, false), root(left))
    };
    hashes.push(last);
    hashes
}
