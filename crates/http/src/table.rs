//! The open connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The open connections, oldest first. If there are too many, the oldest one that no request uses is closed.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    state: Mutex<OpenConnections>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    open: BTreeMap<u64, Arc<ConnectionState>>,
}

#[derive(Debug, Default)]
struct ConnectionState {
    busy: AtomicBool,
    close: Notify,
}

/// One open connection. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    number: u64,
    state: Arc<ConnectionState>,
    table: Arc<Connections>,
}

/// A request under way on a connection.
pub(crate) struct BusyConnection(Arc<ConnectionState>);

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, state: Mutex::default(), closed: Notify::new() })
    }

    /// Adds a connection. If there are too many, closes the oldest idle one; `None` if all are busy.
    pub(crate) fn add(self: &Arc<Self>) -> Option<OpenConnection> {
        let mut state = self.state.lock();
        if state.open.len() >= self.max {
            let idle =
                state.open.iter().find(|(_, it)| !it.busy.load(Ordering::SeqCst)).map(|(at, _)| *at)?;
            state.open.remove(&idle)?.close.notify_one();
        }
        let number = state.next;
        state.next = number.wrapping_add(1);
        let connection = Arc::<ConnectionState>::default();
        state.open.insert(number, Arc::clone(&connection));
        Some(OpenConnection { number, state: connection, table: Arc::clone(self) })
    }

    /// Closes the oldest idle connection, so that its file descriptor is free.
    pub(crate) fn make_room(&self) {
        let mut state = self.state.lock();
        let idle = state.open.iter().find(|(_, it)| !it.busy.load(Ordering::SeqCst)).map(|(at, _)| *at);
        if let Some(connection) = idle.and_then(|at| state.open.remove(&at)) {
            connection.close.notify_one();
        }
    }

    /// Waits until no connection is open.
    pub(crate) async fn wait_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.state.lock().open.is_empty() {
                return;
            }
            closed.await;
        }
    }
}

impl OpenConnection {
    /// Waits until the connection is to be closed.
    pub(crate) async fn wait_close(&self) {
        self.state.close.notified().await;
    }

    /// Marks the connection as busy until the result is dropped.
    pub(crate) fn busy(&self) -> BusyConnection {
        self.state.busy.store(true, Ordering::SeqCst);
        BusyConnection(Arc::clone(&self.state))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.table.state.lock().open.remove(&self.number);
        self.table.closed.notify_waiters();
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::Connections;

    #[test]
    fn the_oldest_idle_connection_makes_room() {
        let table = Connections::new(2);
        let (busy, idle) = (table.add().unwrap(), table.add().unwrap());
        let request = busy.busy();
        let third = table.add().unwrap();
        assert!(!table.state.lock().open.contains_key(&idle.number));
        assert!(table.state.lock().open.contains_key(&busy.number));
        let other = third.busy();
        assert!(table.add().is_none(), "all are busy");
        drop(request);
        assert!(table.add().is_some());
        drop(other);
    }
}
