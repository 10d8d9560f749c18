use std::sync::Barrier;

use crate::thread_number;

#[test]
fn two_running_threads_have_two_numbers() {
    let barrier = Barrier::new(2);
    let number = || {
        let number = thread_number();
        barrier.wait();
        assert_eq!(thread_number(), number);
        number
    };
    let (one, other) = std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(number), scope.spawn(number));
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_ne!(one, other);
}

#[test]
fn the_number_of_an_ended_thread_is_given_again() {
    for _ in 0..1_000 {
        assert!(std::thread::spawn(thread_number).join().unwrap() < 63);
    }
}
