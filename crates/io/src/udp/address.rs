//! Socket addresses in the kernel's own form.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::Family;

/// Size of `sockaddr_in6`, the larger of the two.
const CAPACITY: usize = 28;
const V4_LENGTH: u32 = 16;
const V6_LENGTH: u32 = 28;

/// A `sockaddr_in` or `sockaddr_in6` as bytes, to be read or filled by a system call.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4))]
pub(super) struct RawAddress {
    bytes: [u8; CAPACITY],
}

impl RawAddress {
    pub(super) const EMPTY: Self = Self { bytes: [0; CAPACITY] };
    pub(super) const CAPACITY: u32 = CAPACITY as u32;

    /// Encodes `address` for a socket of `family`, with the length to pass along; `None` for IPv6 on an IPv4 socket.
    pub(super) fn encode(address: SocketAddr, family: Family) -> Option<(Self, u32)> {
        match (address, family) {
            (SocketAddr::V4(v4), Family::V4) => Some((Self::encode_v4(v4), V4_LENGTH)),
            (SocketAddr::V4(v4), Family::Dual) => {
                let mapped = SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0);
                Some((Self::encode_v6(mapped), V6_LENGTH))
            }
            (SocketAddr::V6(v6), Family::Dual) => Some((Self::encode_v6(v6), V6_LENGTH)),
            (SocketAddr::V6(_), Family::V4) => None,
        }
    }

    fn encode_v4(address: SocketAddrV4) -> Self {
        let mut bytes = [0; CAPACITY];
        bytes[0..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&address.ip().octets());
        Self { bytes }
    }

    fn encode_v6(address: SocketAddrV6) -> Self {
        let mut bytes = [0; CAPACITY];
        bytes[0..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
        bytes[8..24].copy_from_slice(&address.ip().octets());
        bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
        Self { bytes }
    }

    /// Decodes what the kernel wrote; an IPv4-mapped address comes back as the IPv4 address that it stands for.
    pub(super) fn decode(&self) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(self.field(2));
        match i32::from(u16::from_ne_bytes(self.field(0))) {
            libc::AF_INET => Some(SocketAddr::from((Ipv4Addr::from(self.field::<4>(4)), port))),
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(self.field::<16>(8));
                Some(match ip.to_ipv4_mapped() {
                    Some(v4) => SocketAddr::from((v4, port)),
                    None => SocketAddrV6::new(ip, port, 0, u32::from_ne_bytes(self.field(24))).into(),
                })
            }
            _ => None,
        }
    }

    fn field<const N: usize>(&self, offset: usize) -> [u8; N] {
        std::array::from_fn(|i| self.bytes[offset + i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_form() {
        let dual = ["10.1.2.3:4791", "[fd00::7]:1", "[fe80::1%7]:65535"];
        for (text, family) in
            dual.map(|t| (t, Family::Dual)).into_iter().chain([("10.1.2.3:4791", Family::V4)])
        {
            let address: SocketAddr = text.parse().unwrap();
            let (raw, _) = RawAddress::encode(address, family).unwrap();
            assert_eq!(raw.decode(), Some(address));
        }
    }

    #[test]
    fn ipv6_does_not_fit_an_ipv4_socket() {
        assert!(RawAddress::encode("[::1]:1".parse().unwrap(), Family::V4).is_none());
    }

    #[test]
    fn an_address_the_kernel_did_not_write_is_none() {
        assert_eq!(RawAddress::EMPTY.decode(), None);
    }
}
