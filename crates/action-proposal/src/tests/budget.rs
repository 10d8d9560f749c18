use std::io::{self, Read};

use countersign_core::{Digest, ManualClock, Millis};
use proptest::prelude::*;

use super::clocks::{ActingClock, at, budget};
use crate::{EvidenceBudget, ResolveError};

/// Returns its bytes in pieces of at most `piece`, and counts the requested ones.
struct Source {
    left: u64,
    piece: usize,
    given: u64,
}

impl Read for &mut Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.piece).min(usize::try_from(self.left).unwrap());
        buffer[..count].fill(b'x');
        self.left -= count as u64;
        self.given += count as u64;
        Ok(count)
    }
}

fn source(left: u64, piece: usize) -> Source {
    Source { left, piece, given: 0 }
}

#[test]
fn returned_bytes_are_the_hashed_ones() {
    for length in [0, 1, 65_535, 65_536, 65_537, 200_000] {
        let bytes: Vec<_> = (0..=250).cycle().take(length).collect();
        let read = budget(1 << 20, 1 << 20).read(bytes.as_slice()).unwrap();
        assert!(read.bytes() == bytes && read.digest() == Digest::of(&bytes), "{length}");
    }
}

#[test]
fn an_endless_source_is_stopped_one_byte_after_the_limit() {
    for (file, total, refusal) in [
        (100_000, 1 << 30, "EVIDENCE_TOO_LARGE"),
        (1 << 30, 100_000, "EVIDENCE_BUDGET"),
        (0, 0, "EVIDENCE_TOO_LARGE"),
    ] {
        let mut endless = source(u64::MAX >> 2, usize::MAX);
        assert_eq!(budget(file, total).read(&mut endless).unwrap_err().code(), refusal);
        assert_eq!(endless.given, file.min(total) + 1);
    }
}

#[test]
fn the_limit_itself_is_not_too_much() {
    assert_eq!(budget(1_000, 5_000).read(&mut source(1_000, 7)).unwrap().bytes().len(), 1_000);
    assert!(matches!(budget(1_000, 5_000).read(&mut source(1_001, 7)), Err(ResolveError::TooLarge)));
    assert_eq!(budget(5_000, 1_000).read(&mut source(1_000, 7)).unwrap().bytes().len(), 1_000);
    assert!(matches!(budget(5_000, 1_000).read(&mut source(1_001, 7)), Err(ResolveError::Budget)));
    assert!(matches!(budget(11, 10).read(&mut source(11, 7)), Err(ResolveError::Budget)));
    assert!(budget(0, 0).read(io::empty()).is_ok());
}

#[test]
fn the_total_counts_every_file_the_refused_ones_too() {
    let mut budget = budget(1_000, 2_500);
    assert!(budget.read(&mut source(1_000, 100)).is_ok());
    assert!(matches!(budget.read(&mut source(9_000, 100)), Err(ResolveError::TooLarge)));
    assert!(matches!(budget.read(&mut source(500, 100)), Err(ResolveError::Budget)));
}

#[test]
fn sixty_four_largest_files_exceed_the_budget() {
    let mebi = 1 << 20;
    let mut budget = budget(5 * mebi, 16 * mebi);
    let read: Vec<_> = (0..64)
        .map(|_| {
            let mut largest = source(5 * mebi, usize::MAX);
            let done = budget.read(&mut largest).is_ok();
            (done, largest.given)
        })
        .collect();
    assert!(read[..3].iter().all(|file| file.0) && read[3..].iter().all(|file| !file.0));
    assert_eq!(
        read.iter().map(|file| file.1).sum::<u64>(),
        16 * mebi + 61,
        "one byte too much for each refusal"
    );
}

#[test]
fn time_runs_out_between_two_reads() {
    let clock = ActingClock::new(|asked| 1_000 + asked * 100);
    let mut budget = EvidenceBudget::start(&clock, u64::MAX, u64::MAX, Millis::from_millis(500)).unwrap();
    let mut slow = source(100, 10);
    assert!(matches!(budget.read(&mut slow), Err(ResolveError::Time)));
    assert_eq!((slow.given, clock.asked()), (50, 7), "read at 1100, 1200, 1300, 1400 and 1500");
}

#[test]
fn without_a_clock_nothing_is_read() {
    let clock = ManualClock::new(at(1_000));
    let mut budget = EvidenceBudget::start(&clock, 10, 10, Millis::from_millis(500)).unwrap();
    clock.break_down();
    let mut file = source(5, 5);
    assert!(matches!(budget.read(&mut file), Err(ResolveError::Time)));
    assert!(matches!(budget.check_time(), Err(ResolveError::Time)));
    assert_eq!(file.given, 0);
    assert!(matches!(
        EvidenceBudget::start(&clock, 10, 10, Millis::from_millis(500)),
        Err(ResolveError::Time)
    ));
}

/// Fails with each error in turn, then returns one byte, then ends.
struct Failing(Vec<io::ErrorKind>, bool);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(kind) = self.0.pop() {
            return Err(kind.into());
        }
        let count = usize::from(!std::mem::replace(&mut self.1, true)).min(buffer.len());
        Ok(count)
    }
}

#[test]
fn interrupted_read_is_retried() {
    let interrupted = Failing(vec![io::ErrorKind::Interrupted; 3], false);
    assert_eq!(budget(10, 10).read(interrupted).unwrap().bytes(), [0]);
    let broken = Failing(vec![io::ErrorKind::UnexpectedEof], false);
    assert!(matches!(budget(10, 10).read(broken), Err(ResolveError::Io(_))));
}

/// Reports more bytes than requested.
struct Boasting;

impl Read for Boasting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(buffer.len() + 1)
    }
}

#[test]
fn a_source_that_says_more_than_it_could_give_is_an_error() {
    assert!(matches!(budget(10, 10).read(Boasting), Err(ResolveError::Io(_))));
}

#[test]
fn every_refusal_has_its_own_code_and_no_detail() {
    let refusals = [
        ResolveError::Reference,
        ResolveError::NotFound,
        ResolveError::NotPlain,
        ResolveError::Changed,
        ResolveError::TooLarge,
        ResolveError::Budget,
        ResolveError::Time,
        ResolveError::Io(io::Error::other("a/path")),
    ];
    let codes: std::collections::BTreeSet<_> = refusals.iter().map(ResolveError::code).collect();
    assert_eq!(codes.len(), refusals.len());
    assert!(refusals.iter().all(|refusal| !refusal.to_string().contains("path")));
}

#[test]
fn evidence_bytes_are_not_printed() {
    let read = budget(100, 100).read(&b"confidential"[..]).unwrap();
    assert_eq!(format!("{read:?}"), format!("ResolvedEvidence(12 bytes, {})", Digest::of(b"confidential")));
}

#[test]
fn a_source_that_says_it_is_endless_gets_no_endless_room() {
    let read = budget(u64::MAX, u64::MAX).read_about(&b"short"[..], u64::MAX).unwrap();
    assert_eq!(read.bytes(), b"short");
}

proptest! {
    #[test]
    fn a_length_that_is_wrongly_said_changes_nothing(
        length in 0_u64..200_000, said in prop::sample::select(vec![0, 1, 65_536, 199_999, u64::MAX]), piece in 1_usize..100_000,
    ) {
        let read = budget(150_000, 150_000).read_about(&mut source(length, piece), said);
        match read {
            Ok(read) => {
                prop_assert!(length <= 150_000);
                prop_assert_eq!(read.digest(), Digest::of(&vec![b'x'; usize::try_from(length).unwrap()]));
            }
            Err(error) => {
                prop_assert!(length > 150_000);
                prop_assert_eq!(error.code(), "EVIDENCE_TOO_LARGE");
            }
        }
    }
}
