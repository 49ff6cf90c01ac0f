//! The base transport header (IBTA vol. 1, 9.2).

use crate::bytes::{bit, put, u16_at, u24_at};
use crate::error::fixed;
use crate::{Layer, Opcode, ParseError, Psn, Qpn};

/// Where the fields stand.
mod field {
    pub const OPCODE: usize = 0;
    pub const FLAGS: usize = 1;
    pub const PKEY: usize = 2;
    pub const CONGESTION: usize = 4;
    pub const DEST_QP: usize = 5;
    pub const ACK_REQUEST: usize = 8;
    pub const PSN: usize = 9;
}

/// The header of every packet of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bth {
    /// What the packet does, and which headers follow.
    pub opcode: Opcode,
    /// SE: the receiver's completion wakes who waits for solicited ones.
    pub solicited: bool,
    /// MigReq: set while the connection is in the migrated state, as it is
    /// always without automatic path migration.
    pub migrated: bool,
    /// How many bytes (0 to 3) were appended to make the payload a multiple of four.
    pub pad_count: u8,
    /// TVER: the transport version, four bits. Only 0 exists.
    pub version: u8,
    /// The partition.
    pub pkey: u16,
    /// The packet met congestion on its way (native InfiniBand; on IP the ECN field tells).
    pub fecn: bool,
    /// The flow in the other direction met congestion.
    pub becn: bool,
    /// The six reserved bits after FECN and BECN, kept for an exact re-emission.
    pub resv6: u8,
    /// The queue pair the packet is for.
    pub dest_qp: Qpn,
    /// The responder shall acknowledge at once.
    pub ack_request: bool,
    /// The seven reserved bits before the PSN, kept for an exact re-emission.
    pub resv7: u8,
    /// The sequence number.
    pub psn: Psn,
}

impl Bth {
    /// The length on the wire.
    pub const LEN: usize = 12;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Bth, bytes)?;
        let flags = b[field::FLAGS];
        let congestion = b[field::CONGESTION];
        let ack_request = b[field::ACK_REQUEST];
        Ok(Bth {
            opcode: Opcode::from_byte(b[field::OPCODE]),
            solicited: flags & 0x80 != 0,
            migrated: flags & 0x40 != 0,
            pad_count: flags >> 4 & 0x3,
            version: flags & 0xF,
            pkey: u16_at(b, field::PKEY),
            fecn: congestion & 0x80 != 0,
            becn: congestion & 0x40 != 0,
            resv6: congestion & 0x3F,
            dest_qp: Qpn::new(u24_at(b, field::DEST_QP)),
            ack_request: ack_request & 0x80 != 0,
            resv7: ack_request & 0x7F,
            psn: Psn::new(u24_at(b, field::PSN)),
        })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Bth::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..Self::LEN];
        out[field::OPCODE] = self.opcode.byte();
        out[field::FLAGS] =
            bit(self.solicited, 7) | bit(self.migrated, 6) | (self.pad_count & 0x3) << 4 | self.version & 0xF;
        put(out, field::PKEY, self.pkey.to_be_bytes());
        // Each 24-bit number is written as a word whose top byte the flags then fill.
        put(out, field::CONGESTION, self.dest_qp.value().to_be_bytes());
        out[field::CONGESTION] = bit(self.fecn, 7) | bit(self.becn, 6) | self.resv6 & 0x3F;
        put(out, field::ACK_REQUEST, self.psn.value().to_be_bytes());
        out[field::ACK_REQUEST] = bit(self.ack_request, 7) | self.resv7 & 0x7F;
        Self::LEN
    }
}

impl Default for Bth {
    /// A template: the default partition (0xFFFF) and the migrated state, which
    /// is what adapters send, and zeros elsewhere.
    fn default() -> Self {
        Bth {
            opcode: Opcode::default(),
            solicited: false,
            migrated: true,
            pad_count: 0,
            version: 0,
            pkey: 0xFFFF,
            fecn: false,
            becn: false,
            resv6: 0,
            dest_qp: Qpn::default(),
            ack_request: false,
            resv7: 0,
            psn: Psn::default(),
        }
    }
}
