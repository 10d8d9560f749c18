use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};

use countersign_approval_token::{MemoryPendingApprovals, PendingApprovals as _};
use countersign_audit_log::{AuditError, AuditSink, OutcomeKind, Record};
use countersign_core::{Clock as _, Millis};
use parking_lot::Mutex;

use super::world::*;
use crate::RejectionCode::*;
use crate::*;

/// One thread that does the work, in order.
#[derive(Debug)]
struct Worker(Mutex<mpsc::Sender<Box<dyn FnOnce() + Send>>>);

/// A pool that is closed.
#[derive(Debug)]
struct Closed;

impl Worker {
    fn start() -> Arc<Self> {
        let (sender, receiver) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        thread::spawn(move || receiver.into_iter().for_each(|work| work()));
        Arc::new(Self(Mutex::new(sender)))
    }

    /// Waits until all work so far is done.
    fn settle(&self) {
        let (done, told) = mpsc::channel();
        self.run(Box::new(move || done.send(()).unwrap()));
        told.recv().unwrap();
    }

    /// Polls once while the worker is busy, and drops the future before the worker goes on.
    fn poll_once<T>(&self, future: impl Future<Output = T>) {
        let (release, released) = mpsc::channel::<()>();
        self.run(Box::new(move || assert!(released.recv().is_err())));
        {
            let mut future = std::pin::pin!(future);
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(release);
    }
}

impl BlockingPool for Worker {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.lock().send(work).unwrap();
    }
}

impl BlockingPool for Closed {
    fn run(&self, _: Box<dyn FnOnce() + Send>) {}
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

fn search(id: &str) -> OwnedToolCall {
    OwnedToolCall::new(id, "search", SEARCH).server("desk")
}

fn outcomes(world: &World) -> Vec<OutcomeKind> {
    let all = world.sink.latest();
    all.into_iter()
        .filter_map(|(_, record)| if let Record::Outcome(it) = record { Some(it.outcome) } else { None })
        .collect()
}

#[test]
fn an_accepted_call_runs_and_a_refused_one_does_not() {
    let world = World::new();
    let gate = AsyncGate::new(world.gate(), Worker::start());
    let ran = wait(gate.call(search("c1"), async |args| Ok::<_, ()>(args.as_str().to_owned())));
    assert_eq!(ran.unwrap(), std::str::from_utf8(SEARCH).unwrap());
    let refused = wait(gate.check(OwnedToolCall::new("c2", "delete_ticket", *b"{}"))).unwrap_err();
    assert_eq!(refused.code(), UndisclosedTool);
    assert_eq!(outcomes(&world), [OutcomeKind::Returned]);
}

#[test]
fn the_retry_of_an_owned_call_carries_its_approval() {
    let world = World::new();
    let gate = AsyncGate::new(world.gate(), Worker::start());
    let call = OwnedToolCall::new("c1", "refund", REFUND);
    let refused = wait(gate.check(call.clone())).unwrap_err();
    let request = refused.approval_request().unwrap();
    let token = gate.gate().approve(request, &"bob".parse().unwrap(), "1m".parse().unwrap()).unwrap();
    assert!(wait(gate.call(call.clone().with_approval(&token), async |_| Ok::<_, ()>(()))).is_ok());
    let again = wait(gate.check(call.with_approval(&token))).unwrap_err();
    assert_eq!(again.code(), ApprovalSpent);
}

#[test]
fn a_dropped_check_runs_nothing_and_leaves_unknown() {
    let world = World::new();
    let worker = Worker::start();
    let gate = AsyncGate::new(world.gate(), Arc::clone(&worker) as Arc<dyn BlockingPool>);
    worker.poll_once(gate.call(search("c1"), async |_| -> Result<(), ()> { panic!("the tool ran") }));
    worker.settle();
    worker.settle();
    assert_eq!(outcomes(&world), [OutcomeKind::Unknown]);
}

#[test]
fn a_check_that_is_never_polled_decides_nothing() {
    let world = World::new();
    let gate = AsyncGate::new(world.gate(), Worker::start());
    let before = world.sink.count();
    drop(gate.check(search("c1")));
    assert_eq!(world.sink.count(), before);
}

#[test]
fn a_tool_that_is_cancelled_leaves_unknown() {
    let world = World::new();
    let worker = Worker::start();
    let gate = AsyncGate::new(world.gate(), Arc::clone(&worker) as Arc<dyn BlockingPool>);
    let accepted = wait(gate.check(search("c1"))).unwrap();
    let (_, in_flight) = wait(accepted.dispatch()).unwrap();
    drop(in_flight);
    worker.settle();
    assert_eq!(outcomes(&world), [OutcomeKind::Unknown]);
}

#[test]
fn a_closed_pool_refuses() {
    let world = World::new();
    let gate = AsyncGate::new(world.gate(), Arc::new(Closed));
    let refused = wait(gate.check(search("c1"))).unwrap_err();
    assert_eq!((refused.code(), refused.sequence()), (Internal, None));
}

/// Counts records that are written on another thread than the pool's.
#[derive(Debug)]
struct Watched {
    sink: Arc<countersign_audit_log::MemorySink>,
    own: ThreadId,
    on_own: Arc<AtomicUsize>,
}

impl AuditSink for Watched {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if thread::current().id() == self.own {
            self.on_own.fetch_add(1, Ordering::Relaxed);
        }
        self.sink.record(record)
    }
}

#[test]
fn nothing_is_recorded_on_the_callers_thread() {
    let world = World::new();
    let on_own = Arc::new(AtomicUsize::new(0));
    let sink =
        Watched { sink: Arc::clone(&world.sink), own: thread::current().id(), on_own: Arc::clone(&on_own) };
    let gate = world.builder_for("session-1", Arc::new(sink)).open().unwrap();
    let opened = on_own.load(Ordering::Relaxed);
    let worker = Worker::start();
    let gate = AsyncGate::new(gate, Arc::clone(&worker) as Arc<dyn BlockingPool>);
    assert!(wait(gate.call(search("c1"), async |_| Ok::<_, ()>(()))).is_ok());
    drop(wait(gate.check(search("c2"))));
    worker.poll_once(gate.check(search("c3")));
    worker.settle();
    worker.settle();
    assert_eq!(on_own.load(Ordering::Relaxed), opened);
    assert_eq!(outcomes(&world).len(), 3);
}

/// A gate, its store of questions, and the question of the call `c1`.
struct Asked {
    gate: AsyncGate,
    store: Arc<MemoryPendingApprovals>,
    request: ApprovalRequest,
    filed: FiledQuestion,
}

impl Asked {
    fn of(world: &World) -> Self {
        let store = Arc::new(MemoryPendingApprovals::new());
        let gate = AsyncGate::new(world.gate(), Worker::start());
        let refused = wait(gate.check(OwnedToolCall::new("c1", "refund", REFUND))).unwrap_err();
        let request = refused.approval_request().unwrap().clone();
        let filed = wait(questions(world, &store, Worker::start()).ask(request.clone())).unwrap();
        assert!(filed.is_new && filed.lacks_approval);
        Self { gate, store, request, filed }
    }
}

fn questions(
    world: &World,
    store: &Arc<MemoryPendingApprovals>,
    pool: Arc<dyn BlockingPool>,
) -> PendingQuestions {
    let approvals = Arc::new(CallApprovals::new(Arc::clone(store) as _, Millis::from_secs(60)));
    PendingQuestions::new(approvals, Arc::clone(&world.clock) as _, pool)
}

#[test]
fn answer_that_comes_while_a_host_waits_is_returned() {
    let world = World::new();
    let Asked { gate, store, request, filed } = Asked::of(&world);
    let mut looks = 0;
    let answer = wait(questions(&world, &store, Worker::start()).wait(&filed.id, || {
        looks += 1;
        if looks == 3 {
            let minute = Millis::from_secs(60);
            let token = gate.gate().approve(&request, &"bob".parse().unwrap(), minute).unwrap();
            store.approve(&filed.id, &token, world.clock.now().unwrap()).unwrap();
        }
        std::future::ready(())
    }));
    let answer = answer.unwrap().unwrap();
    assert_eq!((looks, answer.call_id()), (3, Some(&filed.id)));
    let [token] = answer.tokens() else { panic!("{answer:?}") };
    let call = OwnedToolCall::new("c1", "refund", REFUND).with_approval(token);
    assert!(wait(gate.call(call, async |_| Ok::<_, ()>(()))).is_ok());
}

#[test]
fn question_that_expires_has_no_answer() {
    let world = World::new();
    let Asked { store, filed, .. } = Asked::of(&world);
    let questions = questions(&world, &store, Worker::start());
    let answer = wait(questions.wait(&filed.id, || {
        world.clock.advance(Millis::from_secs(60)).unwrap();
        std::future::ready(())
    }));
    assert!(answer.unwrap().is_none());
    assert!(wait(questions.wait(&"other".parse().unwrap(), async || {})).unwrap().is_none());
}

#[test]
fn wait_in_a_closed_pool_fails_and_keeps_the_question() {
    let world = World::new();
    let Asked { store, filed, .. } = Asked::of(&world);
    let closed = questions(&world, &store, Arc::new(Closed));
    assert_eq!(wait(closed.wait(&filed.id, async || {})).unwrap_err().code(), "STORE_UNAVAILABLE");
    assert_eq!(store.list(world.clock.now().unwrap()).unwrap().len(), 1);
}
