//! Communication management: how connections are made and ended (IBTA vol. 1, chapter 12).
//!
//! A [`CmMad`] is one datagram of 256 bytes on QP 1; its [`CmMessage`] is the part that differs by
//! attribute. Every message is a value of the fields that it has on RoCE; reserved bits are dropped and
//! emitted as zeros. Path migration messages (LAP, APR) are carried as [`CmMessage::Unknown`].
//!
//! | file | what it has |
//! |---|---|
//! | `req` | [`Req`], which asks for a connection, and the [`CmPath`] it proposes |
//! | `rep` | [`Rep`] and [`Rtu`], which answer and conclude |
//! | `rej` | [`Rej`] with its [`RejReason`], and [`Mra`], which asks for patience |
//! | `dreq` | [`Dreq`] and [`Drep`], which end a connection |
//! | `sidr` | [`SidrReq`] and [`SidrRep`], which find the queue pair of a datagram service |
//! | `service` | [`ServiceId`], [`PortSpace`] and [`IpCmHeader`]: the IP addressing of annex A11 |
//! | `private` | [`PrivateData`], what the program sends along |
//! | `route` | [`CmRoute`], which program of many a datagram is for |

mod dreq;
mod private;
mod rej;
mod rep;
mod req;
mod route;
mod service;
mod sidr;

pub use dreq::{Drep, Dreq};
pub use private::PrivateData;
pub use rej::{Mra, Rej, RejReason, RejectedMessage};
pub use rep::{Rep, Rtu};
pub use req::{CmPath, Req, TransportService};
pub use route::CmRoute;
pub use service::{IpCmHeader, PortSpace, ServiceId};
pub use sidr::{SidrRep, SidrReq, SidrStatus};

use crate::{Layer, MadHeader, ManagementClass, Method, ParseError};

/// What follows the common header.
const DATA_LEN: usize = MadHeader::DATAGRAM_LEN - MadHeader::LEN;

type Data = [u8; DATA_LEN];

/// A datagram of communication management.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CmMad {
    /// Chosen by who begins an exchange, repeated by who answers.
    pub transaction_id: u64,
    /// Options of enhanced connection establishment (REQ and REP); else 0.
    pub attribute_modifier: u32,
    /// The rest.
    pub message: CmMessage,
}

/// The messages of communication management.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's, and the values say what they are")]
pub enum CmMessage {
    Req(Req),
    Mra(Mra),
    Rej(Rej),
    Rep(Rep),
    Rtu(Rtu),
    Dreq(Dreq),
    Drep(Drep),
    SidrReq(SidrReq),
    SidrRep(SidrRep),
    /// A message of another attribute, as it came.
    Unknown {
        attribute_id: u16,
        data: [u8; MadHeader::DATAGRAM_LEN - MadHeader::LEN],
    },
}

/// Attribute IDs (IBTA 16.7).
mod attribute {
    pub const REQ: u16 = 0x10;
    pub const MRA: u16 = 0x11;
    pub const REJ: u16 = 0x12;
    pub const REP: u16 = 0x13;
    pub const RTU: u16 = 0x14;
    pub const DREQ: u16 = 0x15;
    pub const DREP: u16 = 0x16;
    pub const SIDR_REQ: u16 = 0x17;
    pub const SIDR_REP: u16 = 0x18;
}

impl CmMad {
    /// The length on the wire.
    pub const LEN: usize = MadHeader::DATAGRAM_LEN;

    /// The version of the class (IBTA 16.7).
    const CLASS_VERSION: u8 = 2;

    /// Reads a datagram, which must be as long as every one is.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let header = MadHeader::parse(bytes)?;
        if bytes.len() > Self::LEN {
            return Err(ParseError::Length { layer: Layer::Mad, value: bytes.len() });
        }
        let Some(data) = bytes[MadHeader::LEN..].first_chunk::<DATA_LEN>() else {
            let (layer, needed, available) = (Layer::Mad, Self::LEN, bytes.len());
            return Err(ParseError::Truncated { layer, needed, available });
        };
        if header.base_version != 1 {
            return Err(ParseError::Version { layer: Layer::Mad, value: header.base_version });
        }
        if header.class != ManagementClass::COMMUNICATION {
            return Err(ParseError::ManagementClass(header.class.0));
        }
        if header.class_version != Self::CLASS_VERSION {
            return Err(ParseError::Version { layer: Layer::Cm, value: header.class_version });
        }
        // No message of this class is answered in the way of the common header (IBTA 16.7).
        if header.method != Method::SEND {
            return Err(ParseError::Method(header.method.0));
        }
        Ok(CmMad {
            transaction_id: header.transaction_id,
            attribute_modifier: header.attribute_modifier,
            message: CmMessage::parse(header.attribute_id, data),
        })
    }

    /// The datagram's bytes.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let header = MadHeader {
            class: ManagementClass::COMMUNICATION,
            class_version: Self::CLASS_VERSION,
            method: Method::SEND,
            transaction_id: self.transaction_id,
            attribute_id: self.message.attribute_id(),
            attribute_modifier: self.attribute_modifier,
            ..MadHeader::default()
        };
        header.emit(&mut out);
        if let Some(data) = out[MadHeader::LEN..].first_chunk_mut() {
            self.message.emit(data);
        }
        out
    }
}

impl CmMessage {
    fn parse(attribute_id: u16, data: &Data) -> Self {
        match attribute_id {
            attribute::REQ => CmMessage::Req(Req::parse(data)),
            attribute::MRA => CmMessage::Mra(Mra::parse(data)),
            attribute::REJ => CmMessage::Rej(Rej::parse(data)),
            attribute::REP => CmMessage::Rep(Rep::parse(data)),
            attribute::RTU => CmMessage::Rtu(Rtu::parse(data)),
            attribute::DREQ => CmMessage::Dreq(Dreq::parse(data)),
            attribute::DREP => CmMessage::Drep(Drep::parse(data)),
            attribute::SIDR_REQ => CmMessage::SidrReq(SidrReq::parse(data)),
            attribute::SIDR_REP => CmMessage::SidrRep(SidrRep::parse(data)),
            _ => CmMessage::Unknown { attribute_id, data: *data },
        }
    }

    /// Fills `out`, which is all zeros.
    fn emit(&self, out: &mut Data) {
        match self {
            CmMessage::Req(message) => message.emit(out),
            CmMessage::Mra(message) => message.emit(out),
            CmMessage::Rej(message) => message.emit(out),
            CmMessage::Rep(message) => message.emit(out),
            CmMessage::Rtu(message) => message.emit(out),
            CmMessage::Dreq(message) => message.emit(out),
            CmMessage::Drep(message) => message.emit(out),
            CmMessage::SidrReq(message) => message.emit(out),
            CmMessage::SidrRep(message) => message.emit(out),
            CmMessage::Unknown { data, .. } => *out = *data,
        }
    }

    /// The attribute that says which message it is.
    pub const fn attribute_id(&self) -> u16 {
        match self {
            CmMessage::Req(_) => attribute::REQ,
            CmMessage::Mra(_) => attribute::MRA,
            CmMessage::Rej(_) => attribute::REJ,
            CmMessage::Rep(_) => attribute::REP,
            CmMessage::Rtu(_) => attribute::RTU,
            CmMessage::Dreq(_) => attribute::DREQ,
            CmMessage::Drep(_) => attribute::DREP,
            CmMessage::SidrReq(_) => attribute::SIDR_REQ,
            CmMessage::SidrRep(_) => attribute::SIDR_REP,
            CmMessage::Unknown { attribute_id, .. } => *attribute_id,
        }
    }
}
