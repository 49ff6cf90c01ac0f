//! Services, and how IP addresses and ports are carried to them (IBTA annex A11).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{array, put, u16_at};

/// What a program listens for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

/// A space of port numbers, as RDMA CM numbers them: the low byte is the IP protocol whose ports it is
/// like, the high byte belongs to the prefix of the service ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSpace(pub u16);

impl PortSpace {
    /// Datagrams of IP over InfiniBand.
    pub const IPOIB: PortSpace = PortSpace(0x0002);
    /// Connections.
    pub const TCP: PortSpace = PortSpace(0x0106);
    /// Datagrams.
    pub const UDP: PortSpace = PortSpace(0x0111);
    /// Whatever service IDs a program chooses.
    pub const IB: PortSpace = PortSpace(0x013F);
}

impl ServiceId {
    /// The service behind a port.
    pub const fn of_port(space: PortSpace, port: u16) -> ServiceId {
        ServiceId((space.0 as u64) << 16 | port as u64)
    }

    /// The port it stands for, if it is one of RDMA CM.
    pub const fn port(self) -> Option<(PortSpace, u16)> {
        let space = PortSpace((self.0 >> 16) as u16);
        let is_known = self.0 >> 32 == 0 && (space.0 >> 8 == 1 || space.0 == PortSpace::IPOIB.0);
        if is_known { Some((space, self.0 as u16)) } else { None }
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port() {
            Some((PortSpace::TCP, port)) => write!(f, "tcp/{port}"),
            Some((PortSpace::UDP, port)) => write!(f, "udp/{port}"),
            _ => write!(f, "{:#018x}", self.0),
        }
    }
}

/// The IP addresses at the start of the private data of a REQ or SIDR REQ to a port. The port
/// of the destination is in the service ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpCmHeader {
    /// Who asks.
    pub source: IpAddr,
    /// From which port.
    pub source_port: u16,
    /// Who is asked; of the same family.
    pub destination: IpAddr,
}

impl IpCmHeader {
    /// The length on the wire.
    pub const LEN: usize = 36;

    /// Reads the header; none if there is too little of it, or it is of a version that does not exist.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        // The major version; minor ones are compatible.
        if bytes[0] >> 4 != 0 {
            return None;
        }
        let address = match bytes[1] >> 4 {
            4 => |bytes: &[u8], at| IpAddr::V4(Ipv4Addr::from_octets(array(bytes, at + 12))),
            6 => |bytes: &[u8], at| IpAddr::V6(Ipv6Addr::from_octets(array(bytes, at))),
            _ => return None,
        };
        Some(IpCmHeader {
            source: address(bytes, 4),
            source_port: u16_at(bytes, 2),
            destination: address(bytes, 20),
        })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`IpCmHeader::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..Self::LEN];
        out.fill(0);
        // Mixed families are no header; the source decides what this is taken for.
        out[1] = if self.source.is_ipv4() { 4 << 4 } else { 6 << 4 };
        put(out, 2, self.source_port.to_be_bytes());
        for (address, at) in [(self.source, 4), (self.destination, 20)] {
            match address {
                IpAddr::V4(address) => put(out, at + 12, address.octets()),
                IpAddr::V6(address) => put(out, at, address.octets()),
            }
        }
        Self::LEN
    }
}
