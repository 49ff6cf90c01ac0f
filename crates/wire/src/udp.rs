//! UDP (RFC 768), the carrier of RoCE v2.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bytes::{put, u16_at};
use crate::checksum::Checksum;
use crate::error::fixed;
use crate::ip::{PROTOCOL_UDP, clamp};
use crate::{Layer, ParseError};

/// The destination port of every RoCE v2 packet (A17.3.2).
pub const ROCE_V2_PORT: u16 = 4791;

/// The UDP header.
///
/// Length and checksum are fields like any other, so that a wrong one survives a re-emission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Udp {
    /// With RoCE v2 a hash of the flow, from which routers choose among equal paths.
    pub source_port: u16,
    /// [`ROCE_V2_PORT`], or else it is not RoCE.
    pub destination_port: u16,
    /// The length of this header and all that follows it.
    pub len: u16,
    /// The checksum; 0 when there is none.
    pub checksum: u16,
}

impl Udp {
    /// The length on the wire.
    pub const LEN: usize = 8;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Udp, bytes)?;
        Ok(Udp {
            source_port: u16_at(b, 0),
            destination_port: u16_at(b, 2),
            len: u16_at(b, 4),
            checksum: u16_at(b, 6),
        })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Udp::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, self.source_port.to_be_bytes());
        put(out, 2, self.destination_port.to_be_bytes());
        put(out, 4, self.len.to_be_bytes());
        put(out, 6, self.checksum.to_be_bytes());
        Self::LEN
    }

    /// The same header with its length set right for `payload_len` bytes that
    /// follow, and no checksum. A length beyond 16 bits is clamped.
    #[must_use]
    pub fn sealed(mut self, payload_len: usize) -> Self {
        self.len = clamp(Self::LEN + payload_len);
        self.checksum = 0;
        self
    }

    /// The checksum over IPv4 (RFC 768) for a payload in `parts`, with `len` already right.
    pub fn right_checksum_v4(&self, source: Ipv4Addr, destination: Ipv4Addr, parts: &[&[u8]]) -> u16 {
        let mut sum = Checksum::new();
        sum = sum.update(&source.octets()).update(&destination.octets());
        self.right_checksum(sum, parts)
    }

    /// The checksum over IPv6 (RFC 8200, 8.1) for a payload in `parts`, with `len` already right.
    pub fn right_checksum_v6(&self, source: Ipv6Addr, destination: Ipv6Addr, parts: &[&[u8]]) -> u16 {
        let mut sum = Checksum::new();
        sum = sum.update(&source.octets()).update(&destination.octets());
        self.right_checksum(sum, parts)
    }

    /// Goes on from the addresses. The rest of both pseudo headers sums up to the same.
    fn right_checksum(&self, addresses: Checksum, parts: &[&[u8]]) -> u16 {
        let mut header = [0; Self::LEN];
        Udp { checksum: 0, ..*self }.emit(&mut header);
        let mut sum = addresses.update(&[0, PROTOCOL_UDP]).update(&self.len.to_be_bytes()).update(&header);
        for part in parts {
            sum = sum.update(part);
        }
        // A sum that comes out as 0, which means "none", is sent as its other form.
        match sum.finish() {
            0 => 0xFFFF,
            sum => sum,
        }
    }
}

impl Default for Udp {
    /// A template for RoCE v2, from the lowest of the source ports it uses.
    fn default() -> Self {
        Udp { source_port: 0xC000, destination_port: ROCE_V2_PORT, len: 0, checksum: 0 }
    }
}
