//! The addresses that a connection may lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use countersign_host::error::HostError;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IPv4 addresses that are not globally reachable, or reach no single host (IANA, *IPv4 Special-Purpose Address Registry*; RFC
/// 5771).
const NOT_PUBLIC: [Ipv4Net; 14] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 3),
];

/// IPv6 addresses of the global unicast range (RFC 4291, section 2.4), and those within that are not globally reachable or lead
/// to an IPv4 address (IANA, *IPv6 Special-Purpose Address Registry*).
const GLOBAL: Ipv6Net = v6([0x2000, 0], 3);
const NOT_GLOBAL: [Ipv6Net; 4] =
    [v6([0x2001, 0], 23), v6([0x2001, 0xdb8], 32), v6([0x2002, 0], 16), v6([0x3fff, 0], 20)];

const fn v4([a, b, c, d]: [u8; 4], bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6([a, b]: [u16; 2], bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), bits)
}

/// Addresses that the operator allows besides the public ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressPolicy(Vec<IpNet>);

impl AddressPolicy {
    /// Reads addresses and ranges, such as `10.1.2.3` and `10.0.0.0/8`.
    pub(crate) fn read(ranges: &[String]) -> Result<Self, HostError> {
        let range = |text: &String| {
            let range = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            range.map_err(|_| {
                HostError::new("SERVER_ADDRESS", "no IP address and no range of them").about(text)
            })
        };
        ranges.iter().map(range).collect::<Result<_, _>>().map(Self)
    }

    /// Returns a policy that allows what either of two allows.
    pub(crate) fn with(&self, other: Self) -> Self {
        Self(self.0.iter().copied().chain(other.0).collect())
    }

    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.0.iter().any(|range| range.contains(&address))
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC.iter().any(|range| range.contains(&address)),
        IpAddr::V6(address) => {
            GLOBAL.contains(&address) && !NOT_GLOBAL.iter().any(|range| range.contains(&address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AddressPolicy;

    fn allows(ranges: &[&str], address: &str) -> bool {
        let ranges: Vec<_> = ranges.iter().map(ToString::to_string).collect();
        AddressPolicy::read(&ranges).unwrap().allows(address.parse().unwrap())
    }

    #[test]
    fn only_public_addresses_are_allowed_by_default() {
        for public in ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111"] {
            assert!(allows(&[], public), "{public}");
        }
        for private in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!allows(&[], private), "{private}");
        }
    }

    #[test]
    fn named_ranges_are_allowed_and_no_others() {
        assert!(allows(&["10.1.0.0/16"], "10.1.2.3") && allows(&["::1"], "::1"));
        assert!(allows(&["127.0.0.1"], "::ffff:127.0.0.1"), "the same host in IPv6's spelling");
        assert!(!allows(&["10.1.0.0/16"], "10.2.0.1") && !allows(&["127.0.0.1"], "127.0.0.2"));
        for wrong in ["", "localhost", "10.0.0.0/33", "10.0.0/8", "10.0.0.1:80"] {
            assert_eq!(
                AddressPolicy::read(&[wrong.to_owned()]).unwrap_err().code(),
                "SERVER_ADDRESS",
                "{wrong}"
            );
        }
    }
}
