//! Connections to one origin: its address, TLS, and reuse.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_host::error::HostError;
use countersign_host::files::read_trusted_text;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::address::AddressPolicy;
use crate::failure::RemoteFailure;

/// Time to resolve a name, to connect, and for TLS, in total.
const CONNECT: Duration = Duration::from_secs(10);
/// Connections that wait for their next request.
const MAX_IDLE: usize = 16;

type HttpSender = SendRequest<Full<Bytes>>;
pub(crate) type PostBody = Full<Bytes>;

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An `http` or `https` URL without user information, query or fragment, and connections to its origin.
pub(crate) struct HttpOrigin {
    url: Uri,
    host: String,
    port: u16,
    host_header: HeaderValue,
    tls: Option<TlsConnector>,
    policy: AddressPolicy,
    plain: PlainText,
    idle: Mutex<Vec<HttpSender>>,
}

/// Whether requests may leave this machine in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainText {
    Refused,
    Allowed,
}

impl std::fmt::Debug for HttpOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpOrigin").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Authorities whose certificates count: the system's, and those of a file.
pub(crate) fn authorities(file: Option<&Path>) -> Result<Arc<ClientConfig>, HostError> {
    let mut roots = RootCertStore::empty();
    // A certificate of the system's that cannot be read counts for nothing.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = file {
        let wrong = |text: String| HostError::new("TLS_FILE", text).about(path.display());
        let text = read_trusted_text(path)?;
        let mut count = 0_usize;
        for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            count = count.saturating_add(1);
        }
        if count == 0 {
            return Err(wrong("no certificate in PEM".to_owned()));
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| HostError::new("INTERNAL", error.to_string()))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

impl HttpOrigin {
    /// Reads a URL. An address in it, and `localhost`, are named by the operator, so the policy allows them.
    pub(crate) fn new(
        url: &str,
        tls: &Arc<ClientConfig>,
        policy: &AddressPolicy,
        plain: PlainText,
    ) -> Result<Self, HostError> {
        let wrong = |text: &str| HostError::new("SERVER_URL", text).about(url);
        let form = || wrong("the URL of a server is http or https, without user, query and fragment");
        let uri: Uri = url.parse().map_err(|_| form())?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(form()),
        };
        if url.contains(['?', '#', '@']) {
            return Err(form());
        }
        let authority = uri.authority().ok_or_else(form)?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(form)?;
        if authority.as_str() != host && uri.port_u16().is_none() {
            return Err(form());
        }
        let host_header = HeaderValue::from_str(authority.as_str()).map_err(|_| form())?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let named: Vec<String> = match host.parse::<IpAddr>() {
            Ok(address) => vec![address.to_canonical().to_string()],
            Err(_) if host == "localhost" => vec!["127.0.0.0/8".to_owned(), "::1".to_owned()],
            Err(_) => Vec::new(),
        };
        let policy = policy.with(AddressPolicy::read(&named)?);
        let is_here =
            host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.to_canonical().is_loopback());
        if !is_tls && !is_here && plain == PlainText::Refused {
            return Err(wrong("requests would leave this machine in clear text: use https"));
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tls = is_tls.then(|| TlsConnector::from(Arc::clone(tls)));
        Ok(Self { url: uri, host, port, host_header, tls, policy, plain, idle: Mutex::default() })
    }

    pub(crate) const fn url(&self) -> &Uri {
        &self.url
    }

    /// Returns the path of a redirect within this origin; `None` if it leads elsewhere.
    pub(crate) fn path_of_redirect(&self, location: &str) -> Option<String> {
        if location.starts_with('/') && !location.starts_with("//") {
            return location.parse::<Uri>().ok().map(|uri| uri.to_string());
        }
        let uri: Uri = location.parse().ok()?;
        let port = uri.port_u16().or(match uri.scheme_str()? {
            "https" => Some(443),
            "http" => Some(80),
            _ => None,
        })?;
        let is_same = uri.scheme_str() == self.url.scheme_str()
            && uri.host()?.eq_ignore_ascii_case(self.url.host()?)
            && port == self.port
            && !uri.authority()?.as_str().contains('@');
        is_same.then(|| uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string))
    }

    /// Sends a request whose URI is a path, over a connection that is open already or a new one.
    pub(crate) async fn send(
        &self,
        mut request: Request<PostBody>,
    ) -> Result<Response<Incoming>, RemoteFailure> {
        request.headers_mut().insert(HOST, self.host_header.clone());
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("countersign"));
        loop {
            let (mut sender, is_new) = match self.idle() {
                Some(sender) => (sender, false),
                None => (self.connect().await?, true),
            };
            if is_new && sender.ready().await.is_err() {
                return Err(RemoteFailure::not_sent("the server closed the connection"));
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(sender);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    // The connection was closed before it took the request.
                    Some(unsent) if !is_new => request = unsent,
                    Some(_) => return Err(RemoteFailure::not_sent(error.into_error().to_string())),
                    None => return Err(RemoteFailure::no_answer(error.into_error().to_string())),
                },
            }
        }
    }

    /// Takes a connection that carries no response.
    fn idle(&self) -> Option<HttpSender> {
        let mut idle = self.idle.lock();
        let at = idle.iter().rposition(SendRequest::is_ready)?;
        Some(idle.swap_remove(at))
    }

    /// Keeps a connection for further requests. It takes them once the response that it carries has ended.
    fn keep(&self, sender: HttpSender) {
        let mut idle = self.idle.lock();
        idle.retain(|sender| !sender.is_closed());
        if idle.len() < MAX_IDLE {
            idle.push(sender);
        }
    }

    async fn connect(&self) -> Result<HttpSender, RemoteFailure> {
        let connected = timeout(CONNECT, async {
            let stream: Box<dyn Io> = match &self.tls {
                None => Box::new(self.tcp().await?),
                Some(tls) => {
                    let name = ServerName::try_from(self.host.clone());
                    let name =
                        name.map_err(|_| RemoteFailure::not_sent("the host is no name of a certificate"))?;
                    let stream = tls.connect(name, self.tcp().await?).await;
                    Box::new(stream.map_err(|error| RemoteFailure::not_sent(format!("TLS: {error}")))?)
                }
            };
            let (sender, connection) = handshake(TokioIo::new(stream))
                .await
                .map_err(|error| RemoteFailure::not_sent(error.to_string()))?;
            tokio::spawn(connection);
            Ok(sender)
        });
        connected.await.unwrap_or_else(|_| Err(RemoteFailure::not_sent("the connection took too long")))
    }

    /// Connects to the first of the name's addresses that takes connections. Only allowed addresses are tried.
    async fn tcp(&self) -> Result<TcpStream, RemoteFailure> {
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let found =
            found.map_err(|error| RemoteFailure::not_sent(format!("the name is not resolved: {error}")))?;
        let is_clear = self.tls.is_none() && self.plain == PlainText::Refused;
        let is_allowed = |address: &SocketAddr| {
            let ip = address.ip().to_canonical();
            self.policy.allows(ip) && (!is_clear || ip.is_loopback())
        };
        let mut failure =
            RemoteFailure::not_sent("the name leads to no address that is public or named in `addresses`");
        for address in found.filter(is_allowed) {
            match connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = RemoteFailure::not_sent(error.to_string()),
            }
        }
        Err(failure)
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_keepalive(true)?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

#[cfg(test)]
mod tests {
    use super::{HttpOrigin, PlainText, authorities};
    use crate::address::AddressPolicy;

    fn origin(url: &str) -> Result<HttpOrigin, &'static str> {
        let tls = authorities(None).unwrap();
        let origin = HttpOrigin::new(url, &tls, &AddressPolicy::default(), PlainText::Refused);
        origin.map_err(|error| error.code())
    }

    #[test]
    fn url_of_another_form_is_refused() {
        for url in [
            "",
            "a.example",
            "/mcp",
            "ftp://a.example/",
            "https://",
            "https://a@b.example/",
            "https://a.example/?q=1",
            "https://a.example/#f",
            "https://a.example:/",
            "https://a.example:x/",
            "http://a.example/",
            "http://10.0.0.1/",
            "http://127.0.0.1.example/",
            "http://[::2]/",
        ] {
            assert_eq!(origin(url).err(), Some("SERVER_URL"), "{url}");
        }
        for url in [
            "https://a.example",
            "https://a.example:8443/mcp",
            "http://127.0.0.1:1/",
            "http://[::1]/",
            "http://LOCALHOST/",
        ] {
            assert!(origin(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn redirects_stay_within_the_origin() {
        let origin = origin("https://a.example/mcp").unwrap();
        for (location, path) in [
            ("/mcp/", Some("/mcp/")),
            ("https://a.example/mcp/?a=1", Some("/mcp/?a=1")),
            ("https://A.example:443/x", Some("/x")),
            ("//b.example/mcp", None),
            ("https://b.example/mcp", None),
            ("https://a.example:444/mcp", None),
            ("http://a.example/mcp", None),
            ("https://u@a.example/mcp", None),
            ("mcp/", None),
        ] {
            assert_eq!(origin.path_of_redirect(location).as_deref(), path, "{location}");
        }
    }
}
