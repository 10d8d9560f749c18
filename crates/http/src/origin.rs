//! Which host names a request may use, and that it comes from no foreign page.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::problem::Problem;

/// Path below which the page lies.
pub(crate) const PAGE: &str = "/page";

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The names of a listener.
#[derive(Clone, Debug)]
pub(crate) struct HostNames {
    /// Names that the operator gave, in lower case.
    names: Vec<String>,
    /// The address, unless it is a wildcard.
    address: Option<IpAddr>,
    /// Whether every path is for programs that may state the own origin.
    is_endpoint: bool,
}

impl HostNames {
    pub(crate) fn new(address: SocketAddr, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let address = Some(address.ip()).filter(|ip| !ip.is_unspecified());
        Self { names, address, is_endpoint: false }
    }

    /// Returns the names of an MCP endpoint: requests that state its own origin pass, and any other host is forbidden (MCP
    /// 2026-07-28, *Streamable HTTP: Security & Endpoint*).
    pub(crate) fn of_endpoint(self) -> Self {
        Self { is_endpoint: true, ..self }
    }

    /// Checks the headers that a browser sets. why: a web page whose own name leads here (DNS rebinding), or any page of
    /// another origin, must reach nothing. A program sends no `Origin`.
    ///
    /// The page's own paths are for browsers: its own origin may use them, and a link elsewhere may lead to them.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let status = if self.is_endpoint { StatusCode::FORBIDDEN } else { StatusCode::MISDIRECTED_REQUEST };
        let refused = |code, text| Err(Problem::new(status, code, text));
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return refused("HOST_NOT_ALLOWED", "exactly one Host header is required");
        };
        // An absolute target names the host a second time.
        let target = uri.authority().is_none_or(|authority| self.allows(authority.as_str()));
        if !host.to_str().is_ok_and(|host| self.allows(host)) || !target {
            let text =
                "the service is not known by this name: the operator lists names in `hosts` of `serve`";
            return refused("HOST_NOT_ALLOWED", text);
        }
        let is_page = uri.path() == "/" || uri.path() == PAGE || uri.path().starts_with("/page/");
        let is_own = |origin: &HeaderValue| {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            origin
                .is_some_and(|(_, name)| (is_page || self.is_endpoint) && host.as_bytes() == name.as_bytes())
        };
        let is_visit = is_page
            && *method == Method::GET
            && headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate")
            && headers.get(FETCH_DEST).is_some_and(|dest| dest == "document");
        let is_cross = |value: &HeaderValue| !matches!(value.as_bytes(), b"same-origin" | b"none");
        let is_foreign = !is_visit && headers.get_all(FETCH_SITE).iter().any(is_cross);
        if is_foreign || !headers.get_all(ORIGIN).iter().all(is_own) {
            let text = "requests of web pages are refused";
            return Err(Problem::new(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", text));
        }
        Ok(())
    }

    fn allows(&self, host: &str) -> bool {
        if self.names.iter().any(|name| host.eq_ignore_ascii_case(name)) {
            return true;
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let ip = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(v6) => v6.parse::<IpAddr>().ok().filter(IpAddr::is_ipv6),
            None => name.parse::<IpAddr>().ok().filter(IpAddr::is_ipv4),
        };
        name.eq_ignore_ascii_case("localhost")
            || ip.is_some_and(|ip| ip.is_loopback() || self.address == Some(ip))
            || self.names.iter().any(|known| name.eq_ignore_ascii_case(known))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, Method, Uri};

    use super::HostNames;

    fn names() -> HostNames {
        HostNames::new("127.0.0.1:7581".parse().unwrap(), &["Gate.Example".to_owned()])
    }

    fn allowed(headers: &[(&'static str, &'static str)], target: &'static str) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        names().check(&Method::GET, &Uri::from_static(target), &map).is_ok()
    }

    #[test]
    fn page_serves_its_own_origin_and_visits_alone() {
        let host = ("host", "localhost:7581");
        let with = |more: &[(&'static str, &'static str)], target| allowed(&[&[host], more].concat(), target);
        assert!(with(&[("origin", "http://localhost:7581"), ("sec-fetch-site", "same-origin")], "/page"));
        for target in ["/v1/check", "/pages", "/metrics"] {
            assert!(!with(&[("origin", "http://localhost:7581")], target), "{target}");
        }
        for origin in
            ["null", "http://evil.example", "http://localhost", "http://localhost:7581.evil.example"]
        {
            assert!(!with(&[("origin", origin)], "/page"), "{origin}");
        }
        let visit = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert!(with(&[&visit[..], &[("sec-fetch-dest", "document")]].concat(), "/page/q/x"));
        assert!(!with(&[&visit[..], &[("sec-fetch-dest", "iframe")]].concat(), "/page/q/x"));
        assert!(!with(&[&visit[..], &[("sec-fetch-dest", "document")]].concat(), "/v1/questions"));
        assert!(!with(&[("sec-fetch-site", "cross-site")], "/page/q/x"));
    }

    #[test]
    fn an_endpoint_serves_its_own_origin_alone() {
        let check = |host: &'static str, origin: &'static str| {
            let mut map = HeaderMap::new();
            map.append("host", HeaderValue::from_static(host));
            map.append("origin", HeaderValue::from_static(origin));
            names().of_endpoint().check(&Method::POST, &Uri::from_static("/mcp"), &map)
        };
        assert!(check("localhost:7582", "http://localhost:7582").is_ok());
        for (host, origin) in [
            ("localhost:7582", "http://evil.example"),
            ("localhost:7582", "null"),
            ("evil.example", "http://evil.example"),
        ] {
            assert_eq!(check(host, origin).unwrap_err().status(), 403, "{host} {origin}");
        }
    }

    #[test]
    fn foreign_host_is_refused() {
        for own in
            ["127.0.0.1:7581", "127.0.0.1", "[::1]:7581", "LocalHost:1", "gate.example", "gate.example:80"]
        {
            assert!(allowed(&[("host", own)], "/v1/check"), "{own}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "[::1].x",
            "10.0.0.1",
            "localhost:",
            "::1",
            "[127.0.0.1]",
            "x@localhost",
        ] {
            assert!(!allowed(&[("host", other)], "/v1/check"), "{other}");
        }
        assert!(!allowed(&[("host", "localhost"), ("host", "evil.example")], "/"));
        assert!(!allowed(&[], "/"));
        assert!(!allowed(&[("host", "localhost")], "http://evil.example/"));
    }

    #[test]
    fn origin_of_a_page_is_refused() {
        for origin in ["null", "http://evil.example", "http://127.0.0.1:7581", ""] {
            assert!(!allowed(&[("host", "localhost"), ("origin", origin)], "/"), "{origin}");
        }
        for (site, is_allowed) in
            [("none", true), ("same-origin", true), ("cross-site", false), ("same-site", false)]
        {
            assert_eq!(allowed(&[("host", "localhost"), ("sec-fetch-site", site)], "/"), is_allowed);
        }
    }
}
