use countersign_core::is_hidden;

use crate::content::ConstraintError;

/// Longest URL, in bytes.
const MAX_URL_BYTES: usize = 8_192;

/// Longest host name, in bytes (RFC 1035, section 2.3.4).
const MAX_HOST_BYTES: usize = 253;

/// Longest label of a host name, in bytes (RFC 1035, section 2.3.4).
const MAX_LABEL_BYTES: usize = 63;

/// Longest local part, in bytes (RFC 5321, section 4.5.3.1.1).
const MAX_LOCAL_BYTES: usize = 64;

/// Longest address, in bytes (RFC 5321, section 4.5.3.1.3, less the angle brackets).
const MAX_ADDRESS_BYTES: usize = 254;

/// Allowed schemes and hosts of a URL.
///
/// The grammar is deliberately narrower than RFC 3986: no user information, no escapes or capitals in the host, no
/// IPv6 literal, and none of the forms that URL parsers read differently. It restricts the target of the request, but
/// neither a redirect nor the address that the name resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UrlRule {
    schemes: Vec<Box<str>>,
    hosts: Vec<Host>,
}

/// Entry of the host list: `example.com`, or `.example.org` (any subdomain, not the domain itself), either with
/// `:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    /// A leading dot stands for any subdomain.
    name: Box<str>,
    port: Option<u16>,
}

impl UrlRule {
    pub(crate) fn new(schemes: &[String], hosts: &[String]) -> Result<Self, ConstraintError> {
        if schemes.is_empty() || hosts.is_empty() {
            return Err(ConstraintError::Empty);
        }
        if !schemes.iter().all(|scheme| is_scheme(scheme)) {
            return Err(ConstraintError::Scheme);
        }
        let hosts = hosts.iter().map(|host| Host::read(host).ok_or(ConstraintError::Host));
        Ok(Self {
            schemes: schemes.iter().map(|scheme| scheme.as_str().into()).collect(),
            hosts: hosts.collect::<Result<_, _>>()?,
        })
    }

    /// Returns whether the URL has an allowed scheme and host.
    pub(crate) fn fits(&self, url: &str) -> bool {
        self.check(url).is_some()
    }

    fn check(&self, url: &str) -> Option<()> {
        if url.len() > MAX_URL_BYTES || url.chars().any(|c| c == '\\' || c.is_whitespace() || is_hidden(c)) {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let scheme = self.schemes.iter().find(|known| &***known == scheme)?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let (host, port) = read_authority(authority)?;
        // why: some parsers take `example.com#` or `example.com?` before an `@` for user information.
        let tail = rest.strip_prefix(authority)?.split('/').next()?;
        if tail.contains('@') {
            return None;
        }
        self.hosts.iter().any(|entry| entry.matches(host, port, scheme)).then_some(())
    }
}

/// Allowed domains of an e-mail address. Matches one bare address: no display name, list, comment or quoting, and no
/// subdomains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmailRule {
    domains: Vec<Box<str>>,
}

impl EmailRule {
    pub(crate) fn new(domains: &[String]) -> Result<Self, ConstraintError> {
        if domains.is_empty() {
            return Err(ConstraintError::Empty);
        }
        if !domains.iter().all(|domain| is_host(domain)) {
            return Err(ConstraintError::Domain);
        }
        Ok(Self { domains: domains.iter().map(|domain| domain.as_str().into()).collect() })
    }

    /// Returns whether the address belongs to one of the domains. Domains are compared without regard to ASCII case.
    pub(crate) fn fits(&self, address: &str) -> bool {
        let Some((local, domain)) = address.split_once('@') else {
            return false;
        };
        address.len() <= MAX_ADDRESS_BYTES
            && is_local_part(local)
            && self.domains.iter().any(|known| known.eq_ignore_ascii_case(domain))
    }
}

impl Host {
    fn read(text: &str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('.') {
            Some(parent) => {
                let (_, port) = read_authority(parent)?;
                (text.split(':').next()?, port)
            }
            None => read_authority(text)?,
        };
        Some(Self { name: name.into(), port })
    }

    fn matches(&self, host: &str, port: Option<u16>, scheme: &str) -> bool {
        // No label of a host is empty, so the dot has a label before it.
        let name_fits =
            if self.name.starts_with('.') { host.ends_with(&*self.name) } else { host == &*self.name };
        let port_fits = match self.port {
            Some(named) => port.or(default_port(scheme)) == Some(named),
            None => port.is_none() || port == default_port(scheme),
        };
        name_fits && port_fits
    }
}

/// Parses `host` or `host:port`.
fn read_authority(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.split_once(':') {
        Some((host, digits)) => (host, Some(read_port(digits)?)),
        None => (text, None),
    };
    let labels_fit = host.split('.').all(is_label);
    (host.len() <= MAX_HOST_BYTES && labels_fit).then_some((host, port))
}

/// A port has one spelling: no sign, no leading zero.
fn read_port(digits: &str) -> Option<u16> {
    if digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL_BYTES).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns whether the text is a host name of lower-case labels.
pub(crate) fn is_host(text: &str) -> bool {
    matches!(read_authority(text), Some((_, None)))
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.len() <= MAX_LABEL_BYTES
        && scheme
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.'))
}

const fn default_port(scheme: &str) -> Option<u16> {
    match scheme.as_bytes() {
        b"http" | b"ws" => Some(80),
        b"https" | b"wss" => Some(443),
        b"ftp" => Some(21),
        b"sftp" | b"ssh" => Some(22),
        _ => None,
    }
}

/// Dot-atom (RFC 5321, section 4.1.2), without the characters that relays and command lines are known to misread: `%`
/// and `!` as routes, a leading `-` as an option, back-tick, `|`, `{` and `}` as shell syntax.
fn is_local_part(local: &str) -> bool {
    local.len() <= MAX_LOCAL_BYTES
        && !local.starts_with('-')
        && local.split('.').all(|atom| {
            !atom.is_empty()
                && atom.bytes().all(|b| b.is_ascii_alphanumeric() || b"#$&'*+-/=?^_~".contains(&b))
        })
}
