//! Cost of appending, proving and verifying, with their floor: the unavoidable hashes, over prepared inputs.

#![expect(clippy::arithmetic_side_effects, reason = "the sizes are known")]

use std::hint::black_box;

use countersign_core::Digest;
use countersign_merkle::{Frontier, LeafHash, MerkleTree, TreeHead, verify_consistency, verify_inclusion};
use criterion::{Criterion, Throughput};

/// Number of entries per round. A power of two needs one node hash fewer than leaf hashes.
const ENTRIES: usize = 1_024;

/// Length of an entry in bytes, close to that of a record's line.
const ENTRY: usize = 400;

type Failure = Box<dyn std::error::Error>;

fn bench_append(criterion: &mut Criterion) {
    let leaf_inputs: Vec<Vec<u8>> =
        (0..=255_u8).cycle().take(ENTRIES).map(|byte| vec![byte; 1 + ENTRY]).collect();
    let entries: Vec<&[u8]> = leaf_inputs.iter().filter_map(|input| input.get(1..)).collect();
    let node_inputs = vec![[1_u8; 65]; ENTRIES - 1];
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(ENTRIES as u64));
    group.bench_function("floor: the same leaf and node inputs", |b| {
        b.iter(|| {
            for input in &leaf_inputs {
                black_box(Digest::of(black_box(input)));
            }
            for input in &node_inputs {
                black_box(Digest::of(black_box(input)));
            }
        });
    });
    group.bench_function("frontier", |b| {
        b.iter(|| {
            let mut frontier = Frontier::new();
            for entry in &entries {
                frontier.append(LeafHash::of(black_box(entry))).ok();
            }
            frontier
        });
    });
    group.bench_function("tree", |b| {
        b.iter(|| {
            let mut tree = MerkleTree::new();
            for entry in &entries {
                tree.append(LeafHash::of(black_box(entry))).ok();
            }
            tree
        });
    });
    group.finish();
}

/// Number of node hashes of a consistency verifier, by the definition of the proof (RFC 9162, section 2.1.4.1): a left
/// sibling counts in both trees, a right one in the new tree alone.
fn consistency_hashes(old: u64, new: u64) -> usize {
    if old == new {
        return 0;
    }
    let half = 1 << (new - 1).ilog2();
    if old <= half {
        1 + consistency_hashes(old, half)
    } else {
        2 + consistency_hashes(old - half, new - half)
    }
}

fn floor(criterion: &mut Criterion, group: &str, hashes: usize) {
    let inputs = vec![[1_u8; 65]; hashes];
    let mut group = criterion.benchmark_group(group);
    group.bench_function(format!("floor: {hashes} node inputs"), |b| {
        b.iter(|| {
            for input in &inputs {
                black_box(Digest::of(black_box(input)));
            }
        });
    });
    group.finish();
}

fn bench_proofs(criterion: &mut Criterion) -> Result<(), Failure> {
    let size: u64 = 1_000_003;
    let tree: MerkleTree = (0..size).map(|at| LeafHash::of(&at.to_be_bytes())).collect();
    let head: TreeHead = tree.head();

    let (index, leaf) = (712_345, LeafHash::of(&712_345_u64.to_be_bytes()));
    let proof = tree.prove_inclusion(index)?;
    proof.verify(&leaf, &head)?;
    floor(criterion, "inclusion", proof.path().len());
    let mut group = criterion.benchmark_group("inclusion");
    group.bench_function("verify", |b| {
        b.iter(|| verify_inclusion(black_box(&leaf), index, &head, black_box(proof.path())));
    });
    group.bench_function("prove", |b| b.iter(|| tree.prove_inclusion(black_box(index))));
    group.finish();

    let old_size = 654_321;
    let (old, proof) = (tree.head_at(old_size)?, tree.prove_consistency(old_size)?);
    proof.verify(&old, &head)?;
    floor(criterion, "consistency", consistency_hashes(old_size, size));
    let mut group = criterion.benchmark_group("consistency");
    group.bench_function("verify", |b| {
        b.iter(|| verify_consistency(black_box(&old), &head, black_box(proof.path())));
    });
    group.bench_function("prove", |b| b.iter(|| tree.prove_consistency(black_box(old_size))));
    group.finish();
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    bench_append(&mut criterion);
    bench_proofs(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
