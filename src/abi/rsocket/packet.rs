//! What two datagram sockets tell each other: over UDP until they know each other's queue pair, then with each datagram.

use std::net::{IpAddr, SocketAddr};

/// What stands before each datagram that comes on a queue pair: who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sender(pub SocketAddr);

impl Sender {
    /// The longest there is.
    pub const MAX_LEN: usize = 24;
    const V4_LEN: usize = 8;

    /// Reads it; returns its length too.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let &[version, length, high, low, ..] = bytes else { return None };
        let port = u16::from_be_bytes([high, low]);
        let ip = match (version, usize::from(length)) {
            (4, Self::V4_LEN) => IpAddr::from(*bytes.get(4..)?.first_chunk::<4>()?),
            (6, Self::MAX_LEN) => IpAddr::from(*bytes.get(8..)?.first_chunk::<16>()?),
            _ => return None,
        };
        Some((Self(SocketAddr::new(ip, port)), length.into()))
    }

    /// Its bytes, and how many of them count.
    pub fn emit(&self) -> ([u8; Self::MAX_LEN], usize) {
        let mut bytes = [0; Self::MAX_LEN];
        let [high, low] = self.0.port().to_be_bytes();
        let (version, length) = match self.0.ip() {
            IpAddr::V4(ip) => {
                bytes[4..8].copy_from_slice(&ip.octets());
                (4, Self::V4_LEN)
            }
            IpAddr::V6(ip) => {
                bytes[8..].copy_from_slice(&ip.octets());
                (6, Self::MAX_LEN)
            }
        };
        bytes[..4].copy_from_slice(&[version, length as u8, high, low]);
        (bytes, length)
    }
}

/// What is told over UDP: a queue pair, and perhaps a datagram for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Knock {
    /// Whether a datagram follows, and an answer is wanted.
    pub has_data: bool,
    /// The sender's queue pair.
    pub qpn: u32,
    /// The sender's address.
    pub ip: IpAddr,
}

impl Knock {
    /// The longest there is.
    pub const MAX_LEN: usize = 28;
    const V4_LEN: usize = 16;
    const TAG: [u8; 4] = [0x55; 4];
    const DATA: u8 = 0;
    const CONTROL: u8 = 7;

    /// Reads it; returns its length too.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (tag, rest) = bytes.split_first_chunk::<4>()?;
        let &[version, operation, length, _, a, b, c, d, ref address @ ..] = rest else { return None };
        let ip = match (version, usize::from(length)) {
            (4, Self::V4_LEN) => IpAddr::from(*address.first_chunk::<4>()?),
            (6, Self::MAX_LEN) => IpAddr::from(*address.first_chunk::<16>()?),
            _ => return None,
        };
        let has_data = match operation {
            Self::DATA => true,
            Self::CONTROL => false,
            _ => return None,
        };
        let qpn = u32::from_be_bytes([a, b, c, d]) & 0xff_ffff;
        (*tag == Self::TAG).then_some((Self { has_data, qpn, ip }, length.into()))
    }

    /// Its bytes, and how many of them count.
    pub fn emit(&self) -> ([u8; Self::MAX_LEN], usize) {
        let mut bytes = [0; Self::MAX_LEN];
        let (version, length) = match self.ip {
            IpAddr::V4(ip) => {
                bytes[12..16].copy_from_slice(&ip.octets());
                (4, Self::V4_LEN)
            }
            IpAddr::V6(ip) => {
                bytes[12..].copy_from_slice(&ip.octets());
                (6, Self::MAX_LEN)
            }
        };
        let operation = if self.has_data { Self::DATA } else { Self::CONTROL };
        bytes[..4].copy_from_slice(&Self::TAG);
        bytes[4..8].copy_from_slice(&[version, operation, length as u8, 0]);
        bytes[8..12].copy_from_slice(&self.qpn.to_be_bytes());
        (bytes, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_survive_the_way_there_and_back() {
        for (text, length) in [("10.1.2.3:4791", 8), ("[fd00::1]:9", 24)] {
            let sender = Sender(text.parse().unwrap());
            let (bytes, emitted) = sender.emit();
            assert_eq!((emitted, Sender::parse(&bytes[..emitted])), (length, Some((sender, length))));
            assert_eq!(Sender::parse(&bytes[..emitted - 1]), None);
        }
        assert_eq!(Sender(([10, 1, 2, 3], 0x102).into()).emit().0[..8], [4, 8, 1, 2, 10, 1, 2, 3]);
        assert_eq!(Sender::parse(&[5, 8, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn knocks_survive_the_way_there_and_back() {
        for (ip, length, has_data) in [("10.1.2.3", 16, true), ("fd00::1", 28, false)] {
            let knock = Knock { has_data, qpn: 0x1234, ip: ip.parse().unwrap() };
            let (mut bytes, emitted) = knock.emit();
            assert_eq!((emitted, Knock::parse(&bytes[..emitted])), (length, Some((knock, length))));
            assert_eq!(Knock::parse(&bytes[..emitted - 1]), None);
            bytes[0] ^= 1;
            assert_eq!(Knock::parse(&bytes), None);
        }
    }
}
