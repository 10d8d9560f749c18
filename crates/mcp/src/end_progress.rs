use std::time::Duration;

/// Progress towards the end of the gateway.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndProgress {
    /// All calls of the client are decided, and no more will come.
    pub(crate) calls_ended: bool,
    /// A line of the server, or its end, is being processed: its request is already answered in the table, but not yet
    /// to the client.
    pub(crate) server_speaks: bool,
    /// A client's request is being cancelled: it is already out of the table, but its outcome is not yet recorded.
    pub(crate) client_cancels: bool,
    /// The server sends no more.
    pub(crate) server_ended: bool,
    /// The side that ended first.
    pub(crate) first: Option<EndedBy>,
    /// Time for calls in flight after the gateway is stopped.
    pub(crate) stopped: Option<Duration>,
}

/// The side that ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    Client,
    Server,
    /// Neither: the gateway was stopped.
    Gateway,
}
