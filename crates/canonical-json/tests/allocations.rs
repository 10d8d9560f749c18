//! Reading allocates nothing in steady state. This is a test binary of its own, since its allocator counts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use allocation_counter::measure;
use countersign_canonical_json::{Canonical, Limits, Reader, Recipe, digest, read, write_string};

/// Arguments of an exact size.
#[path = "../../testing/src/args.rs"]
pub mod args;

const SIZES: [usize; 3] = [26, 1 << 10, 64 << 10];

/// Allocations of the third of three calls.
fn allocations<T>(mut call: impl FnMut() -> T) -> u64 {
    drop((call(), call()));
    measure(|| drop(call())).count_total
}

fn kept(text: &[u8]) -> Canonical {
    read(text, Recipe::Jcs1, &Limits::default()).unwrap()
}

#[test]
fn reused_reader_digests_without_allocating() {
    let mut reader = Reader::new(Limits::default());
    for size in SIZES {
        let args = args::structured_args(size);
        let count = allocations(|| reader.digest(&args, Recipe::Jcs1).unwrap());
        assert_eq!(count, 0, "{size} bytes");
    }
}

#[test]
fn reused_reader_reads_without_allocating() {
    let mut reader = Reader::new(Limits::default());
    for size in SIZES {
        let args = args::structured_args(size);
        let count = allocations(|| drop(reader.read(&args, Recipe::Jcs1).unwrap()));
        assert_eq!(count, 0, "{size} bytes");
    }
}

#[test]
fn reading_takes_the_buffers_of_dropped_values() {
    for size in SIZES {
        let args = args::structured_args(size);
        assert_eq!(allocations(|| kept(&args).digest()), 0, "{size} bytes");
        let once = || digest(&args, Recipe::Jcs1, &Limits::default()).unwrap();
        assert_eq!(allocations(once), 0, "{size} bytes");
    }
}

#[test]
fn texts_of_several_sizes_each_find_buffers() {
    let texts = SIZES.map(args::structured_args);
    let [small, middle, large] = &texts;
    let together = || drop((kept(small), kept(middle), kept(large)));
    assert_eq!(allocations(together), 0);
    assert_eq!(allocations(|| texts.iter().for_each(|text| drop(kept(text)))), 0);
}

#[test]
fn refused_text_allocates_nothing() {
    let mut args = args::structured_args(1 << 10);
    args.pop();
    let refused = || assert!(read(&args, Recipe::Jcs1, &Limits::default()).is_err());
    assert_eq!(allocations(refused), 0);
    let twice = br#"{"b":1,"a":2,"b":3}"#;
    assert_eq!(allocations(|| assert!(read(twice, Recipe::Jcs1, &Limits::default()).is_err())), 0);
}

#[test]
fn limits_are_checked_without_allocating() {
    let args = kept(&args::structured_args(64 << 10));
    assert_eq!(allocations(|| args.check_limits(&Limits::default()).unwrap()), 0);
    let stripped = args.without(&["memo"]);
    assert_eq!(allocations(|| stripped.check_limits(&Limits::default()).unwrap()), 0);
}

#[test]
fn reserved_members_are_stripped_without_allocating() {
    let sent = br#"{"to":"bob","__trace":{"id":7},"amount":12.5}"#;
    assert_eq!(allocations(|| drop(kept(sent).without(&["__trace", "__other"]))), 0);
}

#[test]
fn subtree_takes_the_buffers_of_a_dropped_value() {
    let line = br#"{"id":1,"params":{"arguments":{"to":["bob","ann"],"amount":12.5}}}"#;
    let line = kept(line);
    let value = line.value().pointer("/params/arguments").unwrap();
    assert_eq!(allocations(|| line.subtree(value).digest()), 0);
}

#[test]
fn copy_takes_the_buffers_of_a_dropped_value() {
    let args = kept(&args::structured_args(64 << 10));
    assert_eq!(allocations(|| drop(args.clone())), 0);
}

#[test]
fn absent_arguments_allocate_nothing() {
    assert_eq!(allocations(|| drop(Canonical::empty_object(Recipe::Jcs1))), 0);
}

#[test]
fn canonical_text_is_appended_without_allocating() {
    let args = kept(&args::structured_args(1 << 10));
    let mut out = String::with_capacity(4 << 10);
    let append = || {
        out.clear();
        args.value().write_canonical_text(&mut out);
        write_string(&mut out, "said \"yes\"\n");
    };
    assert_eq!(allocations(append), 0);
}

#[test]
fn held_value_keeps_no_buffers_far_larger_than_its_text() {
    let large = args::structured_args(64 << 10);
    for _ in 0..8 {
        drop((kept(&large), kept(&large), kept(&large), kept(&large)));
    }
    let held = measure(|| std::mem::forget(kept(br#"{"a":1}"#)));
    assert!(held.count_total > 0, "small values leave large buffers to large ones");
    assert!(held.bytes_total < 4 << 10, "{} bytes", held.bytes_total);
}
