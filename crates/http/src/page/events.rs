//! Server-sent events: tell the script that the list of questions has changed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use countersign_approval_token::PendingApprovals as _;
use countersign_core::CallId;
use countersign_host::error::HostError;
use countersign_host::questions::QuestionQueue;
use countersign_host::time::now;
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::sleep;

use super::frame::{PageState, guarded};
use super::person::Person;
use crate::app::App;
use crate::problem::Problem;

/// Interval of looks at the store.
const LOOK: Duration = Duration::from_secs(1);
/// Looks after which a stream ends. The browser then opens another one, with a login that still counts.
const LOOKS: u32 = 55;
/// Looks after which a stream without news shows that it is alive.
const ALIVE: u32 = 15;

pub(super) async fn follow(State(app): PageState, Person(_): Person) -> Response {
    let (news, receiver) = channel(1);
    tokio::spawn(async move {
        let mut before = None;
        for look in 0..LOOKS {
            let at = Arc::clone(&app);
            let Ok(state) = app.slots.run(move || waiting(&at)).await else { return };
            let line = if before.as_ref() != Some(&state) {
                format!("event: queue\ndata: {}\n\n", state.len())
            } else if look % ALIVE == 0 {
                ": alive\n\n".to_owned()
            } else {
                String::new()
            };
            before = Some(state);
            if !line.is_empty() && news.send(Bytes::from(line)).await.is_err() || news.is_closed() {
                return;
            }
            sleep(LOOK).await;
        }
    });
    guarded(Response::new(Body::new(EventStream(receiver))), "text/event-stream")
}

/// Ids of the questions that wait.
fn waiting(app: &App) -> Result<Vec<CallId>, Problem> {
    let look = || -> Result<_, HostError> {
        let Some(queue) = QuestionQueue::open(&app.config)? else { return Ok(Vec::new()) };
        Ok(queue.store().list(now()?)?)
    };
    let waiting = look().map_err(|error| Problem::fault(&error, &app.reporter))?;
    Ok(waiting.iter().map(|pending| pending.id().clone()).collect())
}

/// A body that sends what a task makes.
struct EventStream(Receiver<Bytes>);

impl HttpBody for EventStream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
