use std::io::{self, Read, Write, pipe};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::output::{LineSink, PeerOutput, PeerStream};

/// A stream of lines that has room for some of them.
struct Sink {
    lines: mpsc::Sender<(String, bool)>,
    writer: thread::ThreadId,
    room: usize,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room = self.room.saturating_sub(1);
        let is_writer = thread::current().id() == self.writer;
        self.lines.send((String::from_utf8_lossy(bytes).into(), is_writer)).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineSink for Sink {
    fn has_room(&self) -> bool {
        self.room > 0
    }
}

#[test]
fn sender_writes_its_line_to_a_sink_with_room() {
    let (lines, written) = mpsc::channel();
    let output = Arc::new(PeerOutput::new());
    output.connect(PeerStream::new(PeerStream::of_lines(Sink {
        lines,
        writer: thread::current().id(),
        room: 2,
    })));
    // A sink takes a line of any length.
    let long = "x".repeat(100_000);
    let sender = Arc::clone(&output);
    thread::spawn(move || {
        ["one", &long, "three", "four"].into_iter().for_each(|line| assert!(sender.send(line)));
    })
    .join()
    .unwrap();
    output.close();
    output.write_waiting();
    let written: Vec<_> = written.iter().map(|(line, by_writer)| (line.len(), by_writer)).collect();
    assert_eq!(written, [(4, false), (100_001, false), (6, true), (5, true)]);
}

#[test]
fn sender_writes_its_line_while_the_pipe_has_room() {
    let ((mut reads, writes), output) = (pipe().unwrap(), PeerOutput::new());
    // A stream of streams, as a group of servers makes of a server's.
    output.connect(PeerStream::new(PeerStream::new(writes)));
    assert!(output.send("one") && output.send("two"));
    let mut seen = [0; 8];
    reads.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"one\ntwo\n");
}

#[test]
fn sender_does_not_wait_for_a_full_pipe() {
    let ((mut reads, writes), output) = (pipe().unwrap(), Arc::new(PeerOutput::new()));
    output.connect(writes);
    let lines: Vec<String> = (0..150).map(|number| format!("{number:01000}")).collect();
    for line in &lines {
        assert!(output.send(line.as_str()));
    }
    output.close();
    let writer = Arc::clone(&output);
    let writer = thread::spawn(move || writer.write_waiting());
    let mut seen = String::new();
    reads.read_to_string(&mut seen).unwrap();
    writer.join().unwrap();
    assert!(seen.lines().eq(&lines));
}

#[test]
fn lines_of_many_senders_stay_whole() {
    let ((mut reads, writes), output) = (pipe().unwrap(), Arc::new(PeerOutput::new()));
    let writer = Arc::clone(&output);
    let writer = thread::spawn(move || writer.write_to(writes));
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let output = Arc::clone(&output);
            thread::spawn(move || {
                for number in 0..500_usize {
                    assert!(output.send(format!("{sender} {number} {}", "x".repeat(number.pow(2) % 9_000))));
                }
            })
        })
        .collect();
    let reader = thread::spawn(move || {
        let mut seen = String::new();
        reads.read_to_string(&mut seen).map(|_| seen)
    });
    for sender in senders {
        sender.join().unwrap();
    }
    output.close();
    writer.join().unwrap();
    let seen = reader.join().unwrap().unwrap();
    let mut next = [0_usize; 4];
    for line in seen.lines() {
        let [sender, number, rest]: [&str; 3] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
        let (sender, number): (usize, usize) = (sender.parse().unwrap(), number.parse().unwrap());
        assert_eq!((number, rest.len()), (next[sender], number.pow(2) % 9_000));
        next[sender] += 1;
    }
    assert_eq!(next, [500; 4]);
}

#[test]
fn pipe_without_a_reader_accepts_no_more() {
    let ((reads, writes), output) = (pipe().unwrap(), PeerOutput::new());
    output.connect(writes);
    drop(reads);
    assert!(output.send("lost"), "it waits for the writing thread");
    output.write_waiting();
}

#[test]
fn stream_that_is_no_pipe_is_left_to_the_writing_thread() {
    struct Refuses;
    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("written by its sender")
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let output = PeerOutput::new();
    output.connect(Refuses);
    assert!(output.send("waits"));
}
