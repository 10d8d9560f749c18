use crate::constraint::ConstraintError;
use crate::url_rule::is_host;

/// Longest local part, in bytes (RFC 5321, section 4.5.3.1.1).
const MAX_LOCAL_BYTES: usize = 64;

/// Longest address, in bytes (RFC 5321, section 4.5.3.1.3, less the angle brackets).
const MAX_ADDRESS_BYTES: usize = 254;

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
