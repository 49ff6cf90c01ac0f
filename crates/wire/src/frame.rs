//! Whole Ethernet frames: for captures, tests and whoever has no kernel below.

use crate::ip::PROTOCOL_UDP;
use crate::{
    EtherType, Ethernet, Grh, Headers, Icrc, Ipv4, Ipv6, Layer, Packet, ParseError, ROCE_V2_PORT, Udp, Vlan,
};

/// An Ethernet frame, read as deep as it is understood.
///
/// What is not understood is kept as bytes, so that every frame is re-emitted
/// as it came (but for reserved bits of extended headers, which go out as zeros).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The link header.
    pub ethernet: Ethernet,
    /// The VLAN tags, the outer one first.
    pub vlans: [Option<Vlan>; 2],
    /// The network header.
    pub network: Network,
    /// The UDP header, on IP.
    pub udp: Option<Udp>,
    /// What the headers above carry.
    pub body: Body<'a>,
    /// What follows the body: Ethernet's padding of short frames.
    pub trailer: &'a [u8],
}

/// The network header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// None that is understood.
    #[default]
    None,
    /// IPv4.
    Ipv4(Ipv4),
    /// IPv6.
    Ipv6(Ipv6),
    /// The global route header of RoCE v1.
    Grh(Grh),
}

/// What the headers of a frame carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A packet of the transport.
    Roce(Packet<'a>),
    /// Something else.
    Other(&'a [u8]),
    /// What should have been the next header, but is not well formed.
    Malformed {
        /// Why it is not.
        error: ParseError,
        /// Its bytes, and all that follow.
        bytes: &'a [u8],
    },
}

impl<'a> Frame<'a> {
    /// Reads the frame that `bytes` are (without the frame check sequence).
    ///
    /// Only what is too short for an Ethernet header is an error; what is wrong
    /// further in is told by [`Body::Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut parser = Parser {
            frame: Frame {
                ethernet: Ethernet::parse(bytes)?,
                vlans: [None; 2],
                network: Network::None,
                udp: None,
                body: Body::Other(&[]),
                trailer: &[],
            },
            bytes,
            start: Ethernet::LEN,
            end: bytes.len(),
        };
        let body = match parser.parse_link() {
            Ok(Some(packet)) => Body::Roce(packet),
            Ok(None) => Body::Other(parser.rest()),
            Err(error) => Body::Malformed { error, bytes: parser.rest() },
        };
        Ok(Frame { body, trailer: &bytes[parser.end..], ..parser.frame })
    }

    /// Writes the frame to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Frame::len`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let mut at = self.ethernet.emit(out);
        for vlan in self.vlans.iter().flatten() {
            at += vlan.emit(&mut out[at..]);
        }
        at += self.network.emit(&mut out[at..]);
        if let Some(udp) = &self.udp {
            at += udp.emit(&mut out[at..]);
        }
        at += self.body.emit(&mut out[at..]);
        out[at..at + self.trailer.len()].copy_from_slice(self.trailer);
        at + self.trailer.len()
    }

    /// The length on the wire.
    #[expect(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        self.body_offset() + self.body.len() + self.trailer.len()
    }

    /// The packet of the transport, if it carries one.
    pub fn packet(&self) -> Option<&Packet<'a>> {
        match &self.body {
            Body::Roce(packet) => Some(packet),
            _ => None,
        }
    }

    /// The CRC over the network headers; nothing if they are none that carry RoCE.
    pub fn path(&self) -> Option<Icrc> {
        match (&self.network, &self.udp) {
            (Network::Ipv4(ip), Some(udp)) => Some(Icrc::for_ipv4(ip, udp)),
            (Network::Ipv6(ip), Some(udp)) => Some(Icrc::for_ipv6(ip, udp)),
            (Network::Grh(grh), None) => Some(Icrc::for_grh(grh)),
            _ => None,
        }
    }

    /// Whether the ICRC is right; nothing if the frame carries no RoCE.
    ///
    /// `bytes` are those it was parsed from: the CRC covers reserved bits that
    /// the values do not keep.
    pub fn verify_icrc(&self, bytes: &[u8]) -> Option<bool> {
        self.packet()?;
        let end = bytes.len().checked_sub(self.trailer.len())?;
        let packet = bytes.get(self.body_offset()..end)?;
        Some(self.path()?.verify(packet))
    }

    /// Makes a frame whose addresses, ports and packet are set one that can be
    /// sent: EtherTypes, lengths, the ICRC, then the checksums.
    ///
    /// UDP gets a checksum on IPv6, where receivers insist on one (RFC 8200,
    /// 8.1), and none on IPv4.
    pub fn seal(&mut self) {
        self.seal_ethertypes();
        self.seal_lengths();
        if let (Some(path), Body::Roce(packet)) = (self.path(), &mut self.body) {
            packet.icrc = packet.right_icrc(path);
        }
        self.seal_udp_checksum();
    }

    /// Where the body begins.
    fn body_offset(&self) -> usize {
        Ethernet::LEN
            + self.vlans.iter().flatten().count() * Vlan::LEN
            + self.network.len()
            + self.udp.map_or(0, |_| Udp::LEN)
    }

    fn seal_ethertypes(&mut self) {
        let Some(mut next) = self.network.ethertype() else {
            return;
        };
        for vlan in self.vlans.iter_mut().rev().flatten() {
            vlan.ethertype = next;
            next = EtherType::VLAN;
        }
        if self.vlans.iter().flatten().count() == 2 {
            next = EtherType::SERVICE_VLAN;
        }
        self.ethernet.ethertype = next;
    }

    fn seal_lengths(&mut self) {
        let mut len = self.body.len();
        if let Some(udp) = &mut self.udp {
            *udp = udp.sealed(len);
            len += Udp::LEN;
        }
        match &mut self.network {
            Network::None => {}
            Network::Ipv4(ip) => *ip = ip.sealed(len),
            Network::Ipv6(ip) => *ip = ip.sealed(len),
            Network::Grh(grh) => *grh = grh.sealed(len),
        }
    }

    fn seal_udp_checksum(&mut self) {
        let (Network::Ipv6(ip), Some(udp)) = (&self.network, &mut self.udp) else {
            return;
        };
        let (source, destination) = (ip.source, ip.destination);
        udp.checksum = match &self.body {
            Body::Roce(packet) => {
                let mut headers = [0; Headers::MAX_LEN];
                let headers_len = packet.headers.emit(&mut headers);
                let parts = [&headers[..headers_len], packet.payload, packet.pad, &packet.icrc];
                udp.right_checksum_v6(source, destination, &parts)
            }
            Body::Other(bytes) | Body::Malformed { bytes, .. } => {
                udp.right_checksum_v6(source, destination, &[bytes])
            }
        };
    }
}

impl Network {
    /// The EtherType that announces it.
    pub const fn ethertype(&self) -> Option<EtherType> {
        match self {
            Network::None => None,
            Network::Ipv4(_) => Some(EtherType::IPV4),
            Network::Ipv6(_) => Some(EtherType::IPV6),
            Network::Grh(_) => Some(EtherType::ROCE),
        }
    }

    fn emit(&self, out: &mut [u8]) -> usize {
        match self {
            Network::None => 0,
            Network::Ipv4(ip) => ip.emit(out),
            Network::Ipv6(ip) => ip.emit(out),
            Network::Grh(grh) => grh.emit(out),
        }
    }

    const fn len(&self) -> usize {
        match self {
            Network::None => 0,
            Network::Ipv4(_) => Ipv4::LEN,
            Network::Ipv6(_) => Ipv6::LEN,
            Network::Grh(_) => Grh::LEN,
        }
    }
}

impl Body<'_> {
    fn emit(&self, out: &mut [u8]) -> usize {
        match self {
            Body::Roce(packet) => packet.emit(out),
            Body::Other(bytes) | Body::Malformed { bytes, .. } => {
                out[..bytes.len()].copy_from_slice(bytes);
                bytes.len()
            }
        }
    }

    const fn len(&self) -> usize {
        match self {
            Body::Roce(packet) => packet.len(),
            Body::Other(bytes) | Body::Malformed { bytes, .. } => bytes.len(),
        }
    }
}

/// A frame on its way from bytes: what is not yet in `frame` is `bytes[start..end]`.
struct Parser<'a> {
    frame: Frame<'a>,
    bytes: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.start..self.end]
    }

    fn parse_link(&mut self) -> Result<Option<Packet<'a>>, ParseError> {
        let mut ethertype = self.frame.ethernet.ethertype;
        for slot in 0..self.frame.vlans.len() {
            if !ethertype.is_vlan() {
                break;
            }
            let vlan = Vlan::parse(self.rest())?;
            self.frame.vlans[slot] = Some(vlan);
            self.start += Vlan::LEN;
            ethertype = vlan.ethertype;
        }
        match ethertype {
            EtherType::IPV4 => self.parse_ipv4(),
            EtherType::IPV6 => self.parse_ipv6(),
            EtherType::ROCE => self.parse_grh(),
            _ => Ok(None),
        }
    }

    fn parse_ipv4(&mut self) -> Result<Option<Packet<'a>>, ParseError> {
        let ip = Ipv4::parse(self.rest())?;
        let payload_len = usize::from(ip.total_len).checked_sub(Ipv4::LEN);
        self.enter(Layer::Ipv4, Ipv4::LEN, payload_len, ip.total_len)?;
        self.frame.network = Network::Ipv4(ip);
        if ip.protocol != PROTOCOL_UDP || ip.is_fragment() {
            return Ok(None);
        }
        self.parse_udp()
    }

    fn parse_ipv6(&mut self) -> Result<Option<Packet<'a>>, ParseError> {
        let ip = Ipv6::parse(self.rest())?;
        let payload_len = Some(ip.payload_len.into());
        self.enter(Layer::Ipv6, Ipv6::LEN, payload_len, ip.payload_len)?;
        self.frame.network = Network::Ipv6(ip);
        if ip.next_header != PROTOCOL_UDP {
            return Ok(None);
        }
        self.parse_udp()
    }

    fn parse_grh(&mut self) -> Result<Option<Packet<'a>>, ParseError> {
        let grh = Grh::parse(self.rest())?;
        let payload_len = Some(grh.payload_len.into());
        self.enter(Layer::Grh, Grh::LEN, payload_len, grh.payload_len)?;
        self.frame.network = Network::Grh(grh);
        if grh.next_header != Grh::NEXT_TRANSPORT {
            return Ok(None);
        }
        Packet::parse(self.rest()).map(Some)
    }

    fn parse_udp(&mut self) -> Result<Option<Packet<'a>>, ParseError> {
        let udp = Udp::parse(self.rest())?;
        let payload_len = usize::from(udp.len).checked_sub(Udp::LEN);
        self.enter(Layer::Udp, Udp::LEN, payload_len, udp.len)?;
        self.frame.udp = Some(udp);
        if udp.destination_port != ROCE_V2_PORT {
            return Ok(None);
        }
        Packet::parse(self.rest()).map(Some)
    }

    /// Goes past a header into its payload, whose length comes from the field
    /// `value` of the header.
    fn enter(
        &mut self,
        layer: Layer,
        header_len: usize,
        payload_len: Option<usize>,
        value: u16,
    ) -> Result<(), ParseError> {
        let start = self.start + header_len;
        match payload_len {
            Some(len) if start + len <= self.end => {
                self.start = start;
                self.end = start + len;
                Ok(())
            }
            _ => Err(ParseError::Length { layer, value: value.into() }),
        }
    }
}
