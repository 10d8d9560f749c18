use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::queue::Queue;

#[test]
fn closed_queue_yields_its_items_in_order() {
    let queue = Queue::new(10);
    assert!(queue.push(1, 'a') && queue.push(1, 'b'));
    queue.close();
    assert!(!queue.push(1, 'c'));
    assert_eq!([queue.take(), queue.take(), queue.take()], [Some('a'), Some('b'), None]);
}

#[test]
fn a_full_queue_makes_the_writer_wait_until_something_is_taken() {
    let queue = Arc::new(Queue::new(10));
    assert!(queue.push(8, 1));
    let writer = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.push(8, 2))
    };
    thread::sleep(Duration::from_millis(30));
    assert!(!writer.is_finished());
    assert_eq!(queue.take(), Some(1));
    assert!(writer.join().unwrap());
    assert_eq!(queue.take(), Some(2));
}

#[test]
fn one_item_is_taken_however_heavy_it_is() {
    let queue = Queue::new(10);
    assert!(queue.push(1_000, 1));
    assert_eq!(queue.take(), Some(1));
}

#[test]
fn an_offer_never_waits_and_is_refused_at_its_own_bound() {
    let queue = Queue::new(1);
    assert!(queue.push(1, 1) && queue.offer(1, 2, 2).is_ok() && queue.offer(1, 3, 2) == Err(3));
}

#[test]
fn a_killed_queue_lets_waiting_writers_go_and_forgets_its_items() {
    let queue = Arc::new(Queue::new(1));
    assert!(queue.push(1, 1));
    let writer = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.push(1, 2))
    };
    thread::sleep(Duration::from_millis(30));
    queue.kill();
    assert!(!writer.join().unwrap());
    assert_eq!(queue.take(), None);
}

#[test]
fn idle_means_taken_and_dealt_with() {
    let queue = Arc::new(Queue::new(10));
    queue.push(1, ());
    assert!(queue.take().is_some());
    let waiter = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.wait_idle(Duration::from_secs(60)))
    };
    thread::sleep(Duration::from_millis(30));
    assert!(!waiter.is_finished());
    queue.close();
    assert!(queue.take().is_none());
    waiter.join().unwrap();
}

#[test]
fn consumer_waits_for_a_lent_turn() {
    let queue = Arc::new(Queue::new(10));
    let turn = queue.turn();
    assert!(turn.is_some() && queue.turn().is_none() && !queue.is_idle());
    queue.push(1, 'a');
    let taker = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.take())
    };
    thread::sleep(Duration::from_millis(30));
    assert!(!taker.is_finished());
    drop(turn);
    assert_eq!(taker.join().unwrap(), Some('a'));
    assert!(queue.turn().is_none(), "the item is being processed");
}

#[test]
fn closed_queue_lends_no_turn() {
    let queue = Queue::<()>::new(10);
    queue.close();
    assert!(queue.turn().is_none());
}
