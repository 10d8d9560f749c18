//! Repeats one hot path: `ratios-path NAME TIMES [--hashes]`. Under a profiler, or beside another number of times under
//! valgrind, it shows what the path costs. With `--hashes` it repeats only the hashes of the path. Without arguments it
//! lists the names.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that cannot be set up has to stop")]

use countersign_ratios::paths::PATHS;

/// Tokens that are made before, whatever the number of times, so that making them does not count where valgrind counts.
const PREPARED: u32 = 1_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, times, rest @ ..] = arguments.as_slice() else {
        PATHS.iter().for_each(|(name, ..)| println!("{name}"));
        return;
    };
    let setup = PATHS.iter().find_map(|(known, _, setup)| (known == name).then_some(setup)).unwrap();
    let mut ready = setup();
    let times: u32 = times.parse().unwrap();
    ready.path.prepare(PREPARED);
    match &ready.hashes {
        Some(hashes) if !rest.is_empty() => (0..times).for_each(|_| hashes()),
        None if !rest.is_empty() => {}
        _ => (0..times).for_each(|at| {
            if at > 0 && at % PREPARED == 0 {
                ready.path.prepare(PREPARED);
            }
            ready.path.run();
            ready.path.settle();
        }),
    }
    // why: dropping the path is not part of it.
    std::process::exit(0);
}
