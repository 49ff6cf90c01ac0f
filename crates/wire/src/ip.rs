//! IPv4 (RFC 791) and IPv6 (RFC 8200), without options and extension headers.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bytes::{array, bit, put, u16_at, u32_at};
use crate::checksum::Checksum;
use crate::error::fixed;
use crate::{Layer, ParseError};

/// The protocol number of UDP, in both versions of IP.
pub const PROTOCOL_UDP: u8 = 17;

/// The congestion code point of an IP header: two bits (RFC 3168, 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The sender does not react to marks; the packet is dropped instead.
    #[default]
    NotCapable,
    /// The sender reacts to marks: ECT(1).
    Capable1,
    /// The sender reacts to marks: ECT(0), the usual one.
    Capable0,
    /// The packet met congestion on its way.
    CongestionExperienced,
}

impl Ecn {
    /// The code point of the low two bits.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0x3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::CongestionExperienced,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotCapable => 0,
            Ecn::Capable1 => 1,
            Ecn::Capable0 => 2,
            Ecn::CongestionExperienced => 3,
        }
    }
}

/// What the IP headers have in place of a type of service or traffic class:
/// six bits that ask for a treatment (RFC 2474) and two about congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TrafficClass {
    /// The treatment asked for, six bits.
    pub dscp: u8,
    /// What became of the packet.
    pub ecn: Ecn,
}

impl TrafficClass {
    /// The traffic class of a byte.
    pub const fn from_byte(byte: u8) -> Self {
        TrafficClass { dscp: byte >> 2, ecn: Ecn::from_bits(byte) }
    }

    /// The byte of the traffic class.
    pub const fn byte(self) -> u8 {
        self.dscp << 2 | self.ecn.bits()
    }
}

impl fmt::Display for TrafficClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.byte())
    }
}

/// The IPv4 header.
///
/// Lengths and checksum are fields like any other, so that a wrong one survives
/// a re-emission; [`Ipv4::sealed`] sets them right. Options are refused: RoCE
/// v2 forbids them (A17.3.1), and they would move everything that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4 {
    /// The treatment asked for, and the congestion met.
    pub traffic_class: TrafficClass,
    /// The length of this header and all that follows it.
    pub total_len: u16,
    /// What the fragments of a packet have in common.
    pub identification: u16,
    /// The unassigned flag.
    pub reserved_flag: bool,
    /// Routers shall not fragment the packet.
    pub dont_fragment: bool,
    /// This is a fragment, and not the last.
    pub more_fragments: bool,
    /// Where the fragment begins, in units of eight bytes; 13 bits.
    pub fragment_offset: u16,
    /// How many more routers may forward the packet.
    pub ttl: u8,
    /// What follows.
    pub protocol: u8,
    /// The checksum of the header.
    pub checksum: u16,
    /// Whom the packet is from.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub destination: Ipv4Addr,
}

impl Ipv4 {
    /// The length on the wire.
    pub const LEN: usize = 20;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let layer = Layer::Ipv4;
        let b: &[u8; Self::LEN] = fixed(layer, bytes)?;
        let version = b[0] >> 4;
        if version != 4 {
            return Err(ParseError::Version { layer, value: version });
        }
        let header_len = usize::from(b[0] & 0xF) * 4;
        if header_len > Self::LEN {
            return Err(ParseError::Options { len: header_len - Self::LEN });
        }
        if header_len < Self::LEN {
            return Err(ParseError::Length { layer, value: header_len });
        }
        Ok(Self::from_fields(b))
    }

    fn from_fields(b: &[u8; Self::LEN]) -> Self {
        Ipv4 {
            traffic_class: TrafficClass::from_byte(b[1]),
            total_len: u16_at(b, 2),
            identification: u16_at(b, 4),
            reserved_flag: b[6] & 0x80 != 0,
            dont_fragment: b[6] & 0x40 != 0,
            more_fragments: b[6] & 0x20 != 0,
            fragment_offset: u16_at(b, 6) & 0x1FFF,
            ttl: b[8],
            protocol: b[9],
            checksum: u16_at(b, 10),
            source: Ipv4Addr::from_octets(array(b, 12)),
            destination: Ipv4Addr::from_octets(array(b, 16)),
        }
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Ipv4::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..Self::LEN];
        out[0] = 0x45;
        out[1] = self.traffic_class.byte();
        put(out, 2, self.total_len.to_be_bytes());
        put(out, 4, self.identification.to_be_bytes());
        put(out, 6, (self.fragment_offset & 0x1FFF).to_be_bytes());
        out[6] |= bit(self.reserved_flag, 7) | bit(self.dont_fragment, 6) | bit(self.more_fragments, 5);
        out[8] = self.ttl;
        out[9] = self.protocol;
        put(out, 10, self.checksum.to_be_bytes());
        put(out, 12, self.source.octets());
        put(out, 16, self.destination.octets());
        Self::LEN
    }

    /// The same header with its length, for `payload_len` bytes that follow,
    /// and its checksum set right. A length beyond 16 bits is clamped.
    #[must_use]
    pub fn sealed(mut self, payload_len: usize) -> Self {
        self.total_len = clamp(Self::LEN + payload_len);
        self.checksum = self.right_checksum();
        self
    }

    /// The checksum that the header should carry.
    pub fn right_checksum(&self) -> u16 {
        let mut bytes = [0; Self::LEN];
        Ipv4 { checksum: 0, ..*self }.emit(&mut bytes);
        Checksum::new().update(&bytes).finish()
    }

    /// Whether the packet is a piece of a larger one, so that no header of the
    /// next protocol need follow.
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }
}

impl Default for Ipv4 {
    /// A template for RoCE v2: UDP, not to be fragmented, 64 hops.
    fn default() -> Self {
        Ipv4 {
            traffic_class: TrafficClass::default(),
            total_len: 0,
            identification: 0,
            reserved_flag: false,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: PROTOCOL_UDP,
            checksum: 0,
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
        }
    }
}

/// The IPv6 header. What follows it is as `next_header` says: extension headers are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6 {
    /// The treatment asked for, and the congestion met.
    pub traffic_class: TrafficClass,
    /// What routers keep on one path, 20 bits.
    pub flow_label: u32,
    /// The length of all that follows this header.
    pub payload_len: u16,
    /// What follows.
    pub next_header: u8,
    /// How many more routers may forward the packet.
    pub hop_limit: u8,
    /// Whom the packet is from.
    pub source: Ipv6Addr,
    /// Whom it is for.
    pub destination: Ipv6Addr,
}

impl Ipv6 {
    /// The length on the wire.
    pub const LEN: usize = 40;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Ipv6, bytes)?;
        let first = FirstWord::parse(Layer::Ipv6, b)?;
        Ok(Ipv6 {
            traffic_class: TrafficClass::from_byte(first.traffic_class),
            flow_label: first.flow_label,
            payload_len: u16_at(b, 4),
            next_header: b[6],
            hop_limit: b[7],
            source: Ipv6Addr::from_octets(array(b, 8)),
            destination: Ipv6Addr::from_octets(array(b, 24)),
        })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Ipv6::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..Self::LEN];
        let first = FirstWord { traffic_class: self.traffic_class.byte(), flow_label: self.flow_label };
        put(out, 0, first.bytes());
        put(out, 4, self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        put(out, 8, self.source.octets());
        put(out, 24, self.destination.octets());
        Self::LEN
    }

    /// The same header with its length set right for `payload_len` bytes that
    /// follow. A length beyond 16 bits is clamped.
    #[must_use]
    pub fn sealed(mut self, payload_len: usize) -> Self {
        self.payload_len = clamp(payload_len);
        self
    }
}

impl Default for Ipv6 {
    /// A template for RoCE v2: UDP, 64 hops.
    fn default() -> Self {
        Ipv6 {
            traffic_class: TrafficClass::default(),
            flow_label: 0,
            payload_len: 0,
            next_header: PROTOCOL_UDP,
            hop_limit: 64,
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
        }
    }
}

/// Version 6, traffic class and flow label, as IPv6 and the GRH begin.
pub(crate) struct FirstWord {
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
}

impl FirstWord {
    pub(crate) fn parse(layer: Layer, bytes: &[u8]) -> Result<Self, ParseError> {
        let word = u32_at(bytes, 0);
        let version = bytes[0] >> 4;
        if version != 6 {
            return Err(ParseError::Version { layer, value: version });
        }
        Ok(FirstWord { traffic_class: (word >> 20) as u8, flow_label: word & 0xF_FFFF })
    }

    pub(crate) fn bytes(&self) -> [u8; 4] {
        let class = u32::from(self.traffic_class) << 20;
        (6 << 28 | class | self.flow_label & 0xF_FFFF).to_be_bytes()
    }
}

/// A length as the 16-bit field that carries it.
pub(crate) fn clamp(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}
