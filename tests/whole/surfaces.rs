use countersign_testing::{GateVector, LibrarySurface};
use countersign_tests::workspace;

#[test]
fn library_decides_as_the_vectors_say() {
    let vectors = GateVector::read_all(&workspace().join("tests/vectors/tool-gate"));
    let played = GateVector::run_all_on(&LibrarySurface, &vectors);
    assert!(played >= 45 && played == vectors.len(), "{played} of {}", vectors.len());
}
