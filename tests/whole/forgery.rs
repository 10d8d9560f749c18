/// Code that must not compile is in `tests/compile_fail`.
#[test]
fn the_witnesses_cannot_be_forged_cloned_or_deserialised() {
    trybuild::TestCases::new().compile_fail("compile_fail/*.rs");
}
