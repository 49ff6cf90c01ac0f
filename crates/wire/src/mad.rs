//! The common header of management datagrams (IBTA vol. 1, 13.4.2 and 13.4.3).

use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::error::fixed;
use crate::{Layer, ParseError};

/// Which manager or agent a datagram is for.
///
/// A newtype and not an enum: vendors and applications have ranges of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ManagementClass(pub u8);

impl ManagementClass {
    /// Subnet management, routed by LID.
    pub const SUBNET_LID_ROUTED: ManagementClass = ManagementClass(0x01);
    /// Subnet administration.
    pub const SUBNET_ADMINISTRATION: ManagementClass = ManagementClass(0x03);
    /// Performance counters.
    pub const PERFORMANCE: ManagementClass = ManagementClass(0x04);
    /// Baseboard management.
    pub const BASEBOARD: ManagementClass = ManagementClass(0x05);
    /// Device management.
    pub const DEVICE: ManagementClass = ManagementClass(0x06);
    /// Communication management: how connections are made.
    pub const COMMUNICATION: ManagementClass = ManagementClass(0x07);
    /// Subnet management, routed by a list of ports.
    pub const SUBNET_DIRECTED_ROUTE: ManagementClass = ManagementClass(0x81);
}

/// What a datagram does with its attribute; the top bit tells a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Method(pub u8);

impl Method {
    /// Reads an attribute.
    pub const GET: Method = Method(0x01);
    /// Writes an attribute.
    pub const SET: Method = Method(0x02);
    /// Hands over an attribute, with no answer of this layer.
    pub const SEND: Method = Method(0x03);
    /// Notes an event.
    pub const TRAP: Method = Method(0x05);
    /// Passes an event on to who subscribed to it.
    pub const REPORT: Method = Method(0x06);
    /// Ends the repetition of a trap.
    pub const TRAP_REPRESS: Method = Method(0x07);
    /// Answers a read or a write.
    pub const GET_RESPONSE: Method = Method(0x81);

    /// Whether it answers another datagram.
    pub const fn is_response(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// The header that all management datagrams begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MadHeader {
    /// The version of this header: 1.
    pub base_version: u8,
    /// Whom it is for.
    pub class: ManagementClass,
    /// The version of what follows.
    pub class_version: u8,
    /// What to do with the attribute.
    pub method: Method,
    /// How it went; of requests nothing.
    pub status: u16,
    /// Two bytes for the class: hop pointer and count of directed routes.
    pub class_specific: u16,
    /// What a response has in common with its request.
    pub transaction_id: u64,
    /// Which attribute it is about.
    pub attribute_id: u16,
    /// Two reserved bytes, kept for an exact re-emission.
    pub reserved: u16,
    /// Which part or instance of the attribute.
    pub attribute_modifier: u32,
}

impl MadHeader {
    /// The length on the wire.
    pub const LEN: usize = 24;

    /// The length of a whole datagram.
    pub const DATAGRAM_LEN: usize = 256;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Mad, bytes)?;
        Ok(MadHeader {
            base_version: b[0],
            class: ManagementClass(b[1]),
            class_version: b[2],
            method: Method(b[3]),
            status: u16_at(b, 4),
            class_specific: u16_at(b, 6),
            transaction_id: u64_at(b, 8),
            attribute_id: u16_at(b, 16),
            reserved: u16_at(b, 18),
            attribute_modifier: u32_at(b, 20),
        })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`MadHeader::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..Self::LEN];
        out[0] = self.base_version;
        out[1] = self.class.0;
        out[2] = self.class_version;
        out[3] = self.method.0;
        put(out, 4, self.status.to_be_bytes());
        put(out, 6, self.class_specific.to_be_bytes());
        put(out, 8, self.transaction_id.to_be_bytes());
        put(out, 16, self.attribute_id.to_be_bytes());
        put(out, 18, self.reserved.to_be_bytes());
        put(out, 20, self.attribute_modifier.to_be_bytes());
        Self::LEN
    }
}

impl Default for MadHeader {
    /// Version 1 and zeros.
    fn default() -> Self {
        MadHeader {
            base_version: 1,
            class: ManagementClass::default(),
            class_version: 0,
            method: Method::default(),
            status: 0,
            class_specific: 0,
            transaction_id: 0,
            attribute_id: 0,
            reserved: 0,
            attribute_modifier: 0,
        }
    }
}
