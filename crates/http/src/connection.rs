//! Accepts connections and reads requests, with bounds from the first byte on.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::access::{Caller, Callers};
use crate::origin::HostNames;
use crate::table::{Connections, OpenConnection};
use crate::timed_io::TimedIo;
use crate::tls::Tls;

/// Time for the head of a request, from the moment that it may come. An idle connection is closed after it.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// Most bytes of a head.
const HEAD_BYTES: usize = 16 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;
/// Pause after a failed accept.
const REST: Duration = Duration::from_millis(20);

/// Listener of a request, among the extensions of the request.
#[derive(Clone, Debug)]
pub(crate) enum Entrance {
    /// TCP: the caller has a bearer token.
    Network,
    /// The caller is known: by its certificate, or as the user at the other end of the Unix socket.
    Known(Arc<Caller>),
}

/// TLS of a listener, and the callers that are known by their certificate.
pub(crate) struct TlsCallers {
    pub(crate) tls: Tls,
    pub(crate) callers: Arc<Callers>,
}

/// The routes, the open connections, and the end of the service.
#[derive(Clone)]
pub(crate) struct Reception {
    pub(crate) routes: Router,
    pub(crate) connections: Arc<Connections>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Reception {
    /// Accepts connections over TCP until the service ends.
    pub(crate) async fn network(self, listener: TcpListener, names: HostNames, security: Option<TlsCallers>) {
        let (names, security) = (Arc::new(names), security.map(Arc::new));
        while let Some(accepted) = self.until_stop(listener.accept()).await {
            let Some((stream, _)) = self.accepted(accepted).await else { continue };
            let _ = stream.set_nodelay(true);
            match &security {
                Some(security) => self.begin_tls(stream, Arc::clone(&names), Arc::clone(security)),
                None => self.begin(stream, Some(Arc::clone(&names)), Entrance::Network),
            }
        }
    }

    /// Accepts connections over a Unix socket until the service ends. An unknown user's connection is closed.
    #[cfg(unix)]
    pub(crate) async fn socket(self, listener: UnixListener, callers: Arc<Callers>) {
        while let Some(accepted) = self.until_stop(listener.accept()).await {
            let Some((stream, _)) = self.accepted(accepted).await else { continue };
            let user = stream.peer_cred().ok().and_then(|peer| callers.by_user(peer.uid()));
            if let Some(caller) = user {
                self.begin(stream, None, Entrance::Known(caller));
            }
        }
    }

    /// Returns the accepted connection. If the process is out of file descriptors, an idle connection is closed.
    async fn accepted<T>(&self, accepted: io::Result<T>) -> Option<T> {
        if accepted.is_err() {
            self.connections.make_room();
            tokio::time::sleep(REST).await;
        }
        accepted.ok()
    }

    fn begin<S>(&self, stream: S, names: Option<Arc<HostNames>>, entrance: Entrance)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(place) = self.connections.add() else { return };
        tokio::spawn(serve(self.clone(), stream, Arc::new(place), names, entrance));
    }

    fn begin_tls(&self, stream: TcpStream, names: Arc<HostNames>, security: Arc<TlsCallers>) {
        let Some(place) = self.connections.add() else { return };
        let reception = self.clone();
        tokio::spawn(async move {
            let Some((stream, certificate)) = security.tls.accept(stream).await else { return };
            let caller = certificate.and_then(|digest| security.callers.by_certificate(&digest));
            let entrance = caller.map_or(Entrance::Network, Entrance::Known);
            serve(reception, stream, Arc::new(place), Some(names), entrance).await;
        });
    }

    async fn until_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        let (mut work, mut stop) = (pin!(work), pin!(stop.wait_for(|stop| *stop)));
        poll_fn(move |cx| {
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

/// Serves one connection until it ends, is closed for another one, or the service ends.
async fn serve<S>(
    reception: Reception,
    stream: S,
    place: Arc<OpenConnection>,
    names: Option<Arc<HostNames>>,
    entrance: Entrance,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (routes, requests) = (TowerToHyperService::new(reception.routes), Arc::clone(&place));
    let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
        let busy = requests.busy();
        let checked = names
            .as_ref()
            .map_or(Ok(()), |names| names.check(request.method(), request.uri(), request.headers()));
        request.extensions_mut().insert(entrance.clone());
        let routes = routes.clone();
        async move {
            let _busy = busy;
            Ok::<Response, Infallible>(match checked {
                Ok(()) => match routes.call(request.map(Body::new)).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                },
                Err(problem) => problem.into_response(),
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(MAX_HEADERS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(TimedIo::new(stream)), answer);
    let mut stop = reception.stop;
    let mut connection = pin!(connection);
    let (mut close, mut stop) = (pin!(place.wait_close()), pin!(stop.wait_for(|stop| *stop)));
    let mut is_ending = false;
    poll_fn(move |cx| {
        if close.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if !is_ending && stop.as_mut().poll(cx).is_ready() {
            is_ending = true;
            connection.as_mut().graceful_shutdown();
        }
        // A faulty peer affects only itself.
        connection.as_mut().poll(cx).map(drop)
    })
    .await;
}
