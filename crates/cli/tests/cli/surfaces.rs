//! The gate's public vectors on the command line and at the gateway.

use std::path::Path;

use countersign_testing::{CommandLineSurface, GateVector, GatewaySurface, Surface};

const BINARY: &str = env!("CARGO_BIN_EXE_countersign");

fn play(surface: &dyn Surface, at_least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/tool-gate");
    let played = GateVector::run_all_on(surface, &GateVector::read_all(&folder));
    assert!(played >= at_least, "{played} vectors");
}

#[test]
fn command_line_decides_as_the_vectors_say() {
    play(&CommandLineSurface::of(BINARY), 40);
}

#[test]
fn gateway_decides_as_the_vectors_say() {
    play(&GatewaySurface::of(BINARY), 35);
}
