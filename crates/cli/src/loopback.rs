//! Which hosts of a URL are this machine.

use std::net::IpAddr;

/// Whether a host is this machine: `localhost`, or an address that leads back to it.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}
