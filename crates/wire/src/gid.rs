//! Global identifiers: the 128-bit addresses of ports (IBTA vol. 1, 4.1.1; RoCE v2: A17.4).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Mac;

/// A global identifier. With RoCE v2 it is an IP address: IPv6 as it is, IPv4
/// in its mapped form (`::ffff:a.b.c.d`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// No address.
    pub const UNSPECIFIED: Gid = Gid([0; 16]);

    /// The link-local GID that a port derives from its Ethernet address (RFC 4291, appendix A).
    pub const fn link_local(mac: Mac) -> Gid {
        let [a, b, c, d, e, f] = mac.0;
        Gid([0xFE, 0x80, 0, 0, 0, 0, 0, 0, a ^ 0x02, b, c, 0xFF, 0xFE, d, e, f])
    }

    /// Whether it is an IPv4 address.
    pub const fn is_ipv4_mapped(self) -> bool {
        matches!(self.0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, ..])
    }

    /// Whether it names a group of ports, be it an IPv4 or an IPv6 group.
    pub const fn is_multicast(self) -> bool {
        if self.is_ipv4_mapped() { self.0[12] & 0xF0 == 0xE0 } else { self.0[0] == 0xFF }
    }

    /// Whether it is valid on one link only (`fe80::/10`).
    pub const fn is_link_local(self) -> bool {
        self.0[0] == 0xFE && self.0[1] & 0xC0 == 0x80
    }

    /// Whether it is no address at all.
    pub fn is_unspecified(self) -> bool {
        self == Gid::UNSPECIFIED
    }

    /// The upper half: the subnet.
    pub const fn subnet_prefix(self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }

    /// The lower half: the interface.
    pub const fn interface_id(self) -> u64 {
        u128::from_be_bytes(self.0) as u64
    }

    /// The IP address it stands for.
    pub const fn ip(self) -> IpAddr {
        if self.is_ipv4_mapped() {
            let [.., a, b, c, d] = self.0;
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        } else {
            IpAddr::V6(Ipv6Addr::from_octets(self.0))
        }
    }
}

impl From<Ipv4Addr> for Gid {
    fn from(address: Ipv4Addr) -> Self {
        Gid(address.to_ipv6_mapped().octets())
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(address: Ipv6Addr) -> Self {
        Gid(address.octets())
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => address.into(),
        }
    }
}

impl From<Gid> for IpAddr {
    fn from(gid: Gid) -> Self {
        gid.ip()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from_octets(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_through_a_gid() {
        let v4 = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));
        let v6 = IpAddr::V6(Ipv6Addr::new(0xFE80, 0, 0, 0, 1, 2, 3, 4));
        for address in [v4, v6] {
            assert_eq!(Gid::from(address).ip(), address);
        }
        assert!(Gid::from(v4).is_ipv4_mapped() && !Gid::from(v6).is_ipv4_mapped());
        assert!(Gid::from(v6).is_link_local());
        assert_eq!(Gid::from(v6).interface_id(), 0x0001_0002_0003_0004);
        assert_eq!(Gid::from(v6).subnet_prefix(), 0xFE80_0000_0000_0000);
    }

    #[test]
    fn groups_are_multicast_in_both_families() {
        assert!(Gid::from(Ipv4Addr::new(224, 0, 0, 1)).is_multicast());
        assert!(Gid::from(Ipv4Addr::new(239, 255, 255, 255)).is_multicast());
        assert!(!Gid::from(Ipv4Addr::new(240, 0, 0, 1)).is_multicast());
        assert!(!Gid::from(Ipv4Addr::new(10, 0, 0, 1)).is_multicast());
        assert!(Gid::from(Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1)).is_multicast());
        assert!(!Gid::UNSPECIFIED.is_multicast());
    }

    #[test]
    fn link_local_gid_flips_the_universal_bit() {
        let gid = Gid::link_local(Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        assert_eq!(gid.ip(), IpAddr::V6(Ipv6Addr::new(0xFE80, 0, 0, 0, 0x5054, 0x00FF, 0xFE12, 0x3456)));
    }
}
