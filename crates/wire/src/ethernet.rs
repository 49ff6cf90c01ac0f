//! Ethernet II and 802.1Q VLAN tags.

use core::fmt;

use crate::bytes::{array, bit, put, u16_at};
use crate::error::fixed;
use crate::{Gid, Layer, ParseError};

/// What follows an Ethernet header or a VLAN tag.
///
/// A newtype and not an enum: any 16 bits may stand there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// A customer VLAN tag (802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86DD);
    /// A service VLAN tag (802.1ad), outside a customer tag.
    pub const SERVICE_VLAN: EtherType = EtherType(0x88A8);
    /// RoCE v1: a GRH follows (annex A16).
    pub const ROCE: EtherType = EtherType(0x8915);

    /// Whether a VLAN tag follows.
    pub const fn is_vlan(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::SERVICE_VLAN)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Every station.
    pub const BROADCAST: Mac = Mac([0xFF; 6]);

    /// Whether it names a group of stations (broadcast included).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The group address that carries a multicast GID (RFC 1112, 6.4 and RFC 2464, 7).
    pub const fn for_multicast(gid: Gid) -> Mac {
        let [.., a, b, c, d] = gid.0;
        if gid.is_ipv4_mapped() {
            Mac([0x01, 0x00, 0x5E, b & 0x7F, c, d])
        } else {
            Mac([0x33, 0x33, a, b, c, d])
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The Ethernet header, up to the first EtherType.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ethernet {
    /// Whom the frame is for.
    pub destination: Mac,
    /// Whom it is from.
    pub source: Mac,
    /// What follows: a VLAN tag or the network header.
    pub ethertype: EtherType,
}

impl Ethernet {
    /// The length on the wire.
    pub const LEN: usize = 14;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Ethernet, bytes)?;
        Ok(Ethernet {
            destination: Mac(array(b, 0)),
            source: Mac(array(b, 6)),
            ethertype: EtherType(u16_at(b, 12)),
        })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Ethernet::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, self.destination.0);
        put(out, 6, self.source.0);
        put(out, 12, self.ethertype.0.to_be_bytes());
        Self::LEN
    }
}

/// A VLAN tag, from the EtherType that announces it to the one that follows it (802.1Q, 9.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vlan {
    /// PCP: the priority, three bits; what priority flow control acts on.
    pub priority: u8,
    /// DEI: may be dropped first.
    pub drop_eligible: bool,
    /// VID: the VLAN, twelve bits.
    pub id: u16,
    /// What follows: another tag or the network header.
    pub ethertype: EtherType,
}

impl Vlan {
    /// The length on the wire.
    pub const LEN: usize = 4;

    /// Reads the tag at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Vlan, bytes)?;
        let control = u16_at(b, 0);
        Ok(Vlan {
            priority: b[0] >> 5,
            drop_eligible: b[0] & 0x10 != 0,
            id: control & 0x0FFF,
            ethertype: EtherType(u16_at(b, 2)),
        })
    }

    /// Writes the tag to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Vlan::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, (self.id & 0x0FFF).to_be_bytes());
        out[0] |= (self.priority & 0x7) << 5 | bit(self.drop_eligible, 4);
        put(out, 2, self.ethertype.0.to_be_bytes());
        Self::LEN
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn multicast_gids_have_group_addresses() {
        let v4 = Gid::from(Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(Mac::for_multicast(v4), Mac([0x01, 0, 0x5E, 1, 2, 3]));
        let v6 = Gid::from(Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0x1234, 0x5678));
        assert_eq!(Mac::for_multicast(v6), Mac([0x33, 0x33, 0x12, 0x34, 0x56, 0x78]));
    }

    #[test]
    fn vlan_tag_packs_priority_and_id() {
        let tag = Vlan { priority: 5, drop_eligible: true, id: 0xABC, ethertype: EtherType::IPV4 };
        let mut out = [0; 4];
        tag.emit(&mut out);
        assert_eq!(out, [0xBA, 0xBC, 0x08, 0x00]);
        assert_eq!(Vlan::parse(&out), Ok(tag));
    }
}
