//! The extended transport headers (IBTA vol. 1, 9.3).

use crate::bytes::{put, u24_at, u32_at, u64_at};
use crate::error::fixed;
use crate::{Layer, ParseError, Qpn};

/// Whom an unreliable datagram is from, and the key that lets it in (DETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deth {
    /// The Q_Key of the destination.
    pub qkey: u32,
    /// The queue pair that sent it.
    pub source_qp: Qpn,
}

impl Deth {
    /// The length on the wire.
    pub const LEN: usize = 8;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Extended, bytes)?;
        Ok(Deth { qkey: u32_at(b, 0), source_qp: Qpn::new(u24_at(b, 5)) })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Deth::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, self.qkey.to_be_bytes());
        put(out, 4, self.source_qp.value().to_be_bytes());
        Self::LEN
    }
}

/// The shared receive queue of an XRC request (XRCETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xrceth {
    /// The number of the shared receive queue, from the same 24-bit space as queue pairs.
    pub srqn: Qpn,
}

impl Xrceth {
    /// The length on the wire.
    pub const LEN: usize = 4;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Extended, bytes)?;
        Ok(Xrceth { srqn: Qpn::new(u24_at(b, 1)) })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Xrceth::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, self.srqn.value().to_be_bytes());
        Self::LEN
    }
}

/// Which remote memory an RDMA WRITE or READ is about (RETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reth {
    /// The address in the remote region.
    pub va: u64,
    /// The key of the remote region.
    pub rkey: u32,
    /// The length of the whole message.
    pub length: u32,
}

impl Reth {
    /// The length on the wire.
    pub const LEN: usize = 16;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Extended, bytes)?;
        Ok(Reth { va: u64_at(b, 0), rkey: u32_at(b, 8), length: u32_at(b, 12) })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Reth::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, self.va.to_be_bytes());
        put(out, 8, self.rkey.to_be_bytes());
        put(out, 12, self.length.to_be_bytes());
        Self::LEN
    }
}

/// The operands of an atomic operation (AtomicETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// The address in the remote region.
    pub va: u64,
    /// The key of the remote region.
    pub rkey: u32,
    /// What to store if the comparison holds, or what to add.
    pub swap_or_add: u64,
    /// What to compare with.
    pub compare: u64,
}

impl AtomicEth {
    /// The length on the wire.
    pub const LEN: usize = 28;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Extended, bytes)?;
        Ok(AtomicEth {
            va: u64_at(b, 0),
            rkey: u32_at(b, 8),
            swap_or_add: u64_at(b, 12),
            compare: u64_at(b, 20),
        })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`AtomicEth::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, self.va.to_be_bytes());
        put(out, 8, self.rkey.to_be_bytes());
        put(out, 12, self.swap_or_add.to_be_bytes());
        put(out, 20, self.compare.to_be_bytes());
        Self::LEN
    }
}

/// The verdict of the responder (AETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// What became of the request.
    pub syndrome: Syndrome,
    /// How many messages the responder has completed, 24 bits.
    pub msn: u32,
}

impl Aeth {
    /// The length on the wire.
    pub const LEN: usize = 4;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Extended, bytes)?;
        Ok(Aeth { syndrome: Syndrome::from_byte(b[0]), msn: u24_at(b, 1) })
    }

    /// Writes the header to the start of `out` and returns its length. Of the
    /// MSN the low 24 bits are written.
    ///
    /// # Panics
    /// If `out` is shorter than [`Aeth::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, self.msn.to_be_bytes());
        out[0] = self.syndrome.byte();
        Self::LEN
    }
}

/// What became of a request (IBTA vol. 1, 9.3.5). Converts to and from all 256 bytes
/// without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// It was done.
    Ack {
        /// The coded number of receives the responder has left, five bits.
        credits: u8,
    },
    /// The responder has no receive posted; try again later.
    RnrNak {
        /// The coded time to wait, five bits.
        timer: u8,
    },
    /// It was refused.
    Nak(NakCode),
    /// Not assigned; the whole byte.
    Reserved(u8),
}

impl Syndrome {
    /// The credit code of a responder that does not count them.
    pub const UNLIMITED: u8 = 31;

    /// The syndrome of a byte.
    pub const fn from_byte(byte: u8) -> Self {
        let value = byte & 0x1F;
        match byte >> 5 {
            0b000 => Syndrome::Ack { credits: value },
            0b001 => Syndrome::RnrNak { timer: value },
            0b011 => Syndrome::Nak(NakCode::from_bits(value)),
            _ => Syndrome::Reserved(byte),
        }
    }

    /// The byte of the syndrome.
    pub const fn byte(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits & 0x1F,
            Syndrome::RnrNak { timer } => 0x20 | timer & 0x1F,
            Syndrome::Nak(code) => 0x60 | code.bits() & 0x1F,
            Syndrome::Reserved(byte) => byte,
        }
    }
}

impl Default for Syndrome {
    /// An acknowledgement from a responder that does not count credits.
    fn default() -> Self {
        Syndrome::Ack { credits: Syndrome::UNLIMITED }
    }
}

/// Why a request was refused (IBTA vol. 1, 9.7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// A packet before this one is missing; resend from the PSN of the NAK.
    PsnSequence,
    /// The responder cannot do this.
    InvalidRequest,
    /// Key, bounds or access rights forbid it.
    RemoteAccess,
    /// The responder failed on its own.
    RemoteOperational,
    /// Reliable datagram only.
    InvalidRdRequest,
    /// Not assigned; five bits.
    Reserved(u8),
}

impl NakCode {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => NakCode::PsnSequence,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccess,
            3 => NakCode::RemoteOperational,
            4 => NakCode::InvalidRdRequest,
            bits => NakCode::Reserved(bits),
        }
    }

    const fn bits(self) -> u8 {
        match self {
            NakCode::PsnSequence => 0,
            NakCode::InvalidRequest => 1,
            NakCode::RemoteAccess => 2,
            NakCode::RemoteOperational => 3,
            NakCode::InvalidRdRequest => 4,
            NakCode::Reserved(bits) => bits,
        }
    }
}

/// The value an atomic operation found (AtomicAckETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The remote value before the operation.
    pub original: u64,
}

impl AtomicAckEth {
    /// The length on the wire.
    pub const LEN: usize = 8;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Extended, bytes)?;
        Ok(AtomicAckEth { original: u64_at(b, 0) })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`AtomicAckEth::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        put(out, 0, self.original.to_be_bytes());
        Self::LEN
    }
}
