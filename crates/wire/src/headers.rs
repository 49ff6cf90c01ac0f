//! All transport headers of a packet as one value.

use crate::bytes::{put, u32_at};
use crate::error::fixed;
use crate::layout::{ExtendedKind, IMMEDIATE_LEN, ImmediateKind, Layout, NOTIFICATION_LEN};
use crate::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Layer, ParseError, Reth, Xrceth};

/// The transport headers of a packet, from the BTH to the payload.
///
/// Who builds one sets the parts that the opcode calls for
/// ([`Opcode::layout`](crate::Opcode::layout)); [`Headers::is_consistent`] tells whether they agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Headers {
    /// The base header.
    pub bth: Bth,
    /// The shared receive queue, on XRC requests.
    pub xrceth: Option<Xrceth>,
    /// The extended header of the operation.
    pub extended: Extended,
    /// What the sender hands to the receiver's completion.
    pub immediate: Immediate,
}

/// The extended header of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Extended {
    /// None.
    #[default]
    None,
    /// RDMA WRITE (first packet) and READ request.
    Reth(Reth),
    /// Atomic request.
    Atomic(AtomicEth),
    /// Acknowledgement and READ response (but for the middle packets).
    Aeth(Aeth),
    /// Atomic response.
    AtomicAck(Aeth, AtomicAckEth),
    /// Unreliable datagram.
    Deth(Deth),
}

/// What the sender hands to the receiver's completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Immediate {
    /// Nothing.
    #[default]
    None,
    /// Immediate data: its four bytes read as a big-endian integer.
    Data(u32),
    /// The rkey to invalidate.
    Invalidate(u32),
}

impl Headers {
    /// The length of the longest headers: an atomic request on XRC.
    pub const MAX_LEN: usize = Bth::LEN + Xrceth::LEN + AtomicEth::LEN;

    /// Reads the headers at the start of `bytes`, which begin with the BTH, and
    /// returns them with the offset of the payload.
    ///
    /// The opcode is looked up before any length is derived from it: one that
    /// is not defined is an error, never headers of length zero.
    pub fn parse(bytes: &[u8]) -> Result<(Headers, usize), ParseError> {
        let bth = Bth::parse(bytes)?;
        let layout = bth.opcode.layout().ok_or(ParseError::UnknownOpcode(bth.opcode.byte()))?;
        let end = Bth::LEN + usize::from(layout.extended_len);
        let rest = bytes.get(Bth::LEN..end).ok_or(ParseError::Truncated {
            layer: Layer::Extended,
            needed: usize::from(layout.extended_len),
            available: bytes.len() - Bth::LEN,
        })?;
        let headers = Headers::parse_extended(bth, layout, rest)?;
        Ok((headers, end))
    }

    fn parse_extended(bth: Bth, layout: &Layout, bytes: &[u8]) -> Result<Headers, ParseError> {
        let (xrceth, bytes) =
            if layout.xrceth { (Some(Xrceth::parse(bytes)?), &bytes[Xrceth::LEN..]) } else { (None, bytes) };
        let (extended, bytes) = Extended::parse(layout.extended, bytes)?;
        let immediate = Immediate::parse(layout.immediate, bytes)?;
        Ok(Headers { bth, xrceth, extended, immediate })
    }

    /// Writes the headers to the start of `out` and returns their length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Headers::len`]; [`Headers::MAX_LEN`] is always enough.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        debug_assert!(self.is_consistent(), "headers contradict {self:?}");
        let mut at = self.bth.emit(out);
        if let Some(xrceth) = &self.xrceth {
            at += xrceth.emit(&mut out[at..]);
        }
        at += self.extended.emit(&mut out[at..]);
        if self.bth.opcode == crate::Opcode::CNP {
            out[at..at + NOTIFICATION_LEN].fill(0);
            at += NOTIFICATION_LEN;
        }
        at + self.immediate.emit(&mut out[at..])
    }

    /// The length on the wire.
    #[expect(clippy::len_without_is_empty, reason = "headers are never empty")]
    pub const fn len(&self) -> usize {
        let extended_len = match self.bth.opcode.layout() {
            Some(layout) => layout.extended_len as usize,
            None => 0,
        };
        Bth::LEN + extended_len
    }

    /// Whether the parts that are present are the ones the opcode calls for.
    pub const fn is_consistent(&self) -> bool {
        let Some(layout) = self.bth.opcode.layout() else {
            return false;
        };
        let extended = matches!(
            (layout.extended, &self.extended),
            (ExtendedKind::None | ExtendedKind::Notification, Extended::None)
                | (ExtendedKind::Reth, Extended::Reth(_))
                | (ExtendedKind::Atomic, Extended::Atomic(_))
                | (ExtendedKind::Aeth, Extended::Aeth(_))
                | (ExtendedKind::AtomicAck, Extended::AtomicAck(..))
                | (ExtendedKind::Deth, Extended::Deth(_))
        );
        let immediate = matches!(
            (layout.immediate, &self.immediate),
            (ImmediateKind::None, Immediate::None)
                | (ImmediateKind::Data, Immediate::Data(_))
                | (ImmediateKind::Invalidate, Immediate::Invalidate(_))
        );
        extended && immediate && layout.xrceth == self.xrceth.is_some()
    }
}

impl Extended {
    /// Reads what `kind` says and returns it with the bytes after it.
    fn parse(kind: ExtendedKind, bytes: &[u8]) -> Result<(Extended, &[u8]), ParseError> {
        let (extended, len) = match kind {
            ExtendedKind::None => (Extended::None, 0),
            ExtendedKind::Reth => (Extended::Reth(Reth::parse(bytes)?), Reth::LEN),
            ExtendedKind::Atomic => (Extended::Atomic(AtomicEth::parse(bytes)?), AtomicEth::LEN),
            ExtendedKind::Aeth => (Extended::Aeth(Aeth::parse(bytes)?), Aeth::LEN),
            ExtendedKind::AtomicAck => (
                Extended::AtomicAck(Aeth::parse(bytes)?, AtomicAckEth::parse(&bytes[Aeth::LEN..])?),
                Aeth::LEN + AtomicAckEth::LEN,
            ),
            ExtendedKind::Deth => (Extended::Deth(Deth::parse(bytes)?), Deth::LEN),
            ExtendedKind::Notification => (Extended::None, NOTIFICATION_LEN),
        };
        Ok((extended, &bytes[len..]))
    }

    fn emit(&self, out: &mut [u8]) -> usize {
        match self {
            Extended::None => 0,
            Extended::Reth(reth) => reth.emit(out),
            Extended::Atomic(atomic) => atomic.emit(out),
            Extended::Aeth(aeth) => aeth.emit(out),
            Extended::AtomicAck(aeth, ack) => aeth.emit(out) + ack.emit(&mut out[Aeth::LEN..]),
            Extended::Deth(deth) => deth.emit(out),
        }
    }
}

impl Immediate {
    fn parse(kind: ImmediateKind, bytes: &[u8]) -> Result<Immediate, ParseError> {
        let word = || fixed::<IMMEDIATE_LEN>(Layer::Extended, bytes).map(|b| u32_at(b, 0));
        Ok(match kind {
            ImmediateKind::None => Immediate::None,
            ImmediateKind::Data => Immediate::Data(word()?),
            ImmediateKind::Invalidate => Immediate::Invalidate(word()?),
        })
    }

    fn emit(&self, out: &mut [u8]) -> usize {
        match *self {
            Immediate::None => 0,
            Immediate::Data(word) | Immediate::Invalidate(word) => {
                put(out, 0, word.to_be_bytes());
                IMMEDIATE_LEN
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Opcode, Operation, Psn, Qpn, Service};

    #[test]
    fn write_only_stands_on_the_wire_as_specified() {
        let headers = Headers {
            bth: Bth {
                opcode: Opcode::new(Service::Rc, Operation::WriteOnly),
                pad_count: 3,
                dest_qp: Qpn::new(0x11),
                ack_request: true,
                psn: Psn::new(0xABCDEF),
                ..Bth::default()
            },
            extended: Extended::Reth(Reth { va: 0x0102_0304_0506_0708, rkey: 0x1122_3344, length: 1 }),
            ..Headers::default()
        };
        let mut out = [0xEE; Headers::MAX_LEN];
        let len = headers.emit(&mut out);
        assert_eq!(
            out[..len],
            [
                0x0A, 0x70, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x11, 0x80, 0xAB, 0xCD, 0xEF, // BTH
                1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 1, // RETH
            ]
        );
        assert_eq!(len, headers.len());
        assert_eq!(Headers::parse(&out), Ok((headers, len)));
    }

    #[test]
    fn congestion_notification_skips_its_reserved_bytes() {
        let headers =
            Headers { bth: Bth { opcode: Opcode::CNP, becn: true, ..Bth::default() }, ..Headers::default() };
        let mut out = [0xEE; Headers::MAX_LEN];
        assert_eq!(headers.emit(&mut out), 28);
        assert_eq!(out[12..28], [0; 16]);
        assert_eq!(Headers::parse(&out), Ok((headers, 28)));
    }

    #[test]
    fn every_opcode_cut_short_anywhere_is_an_error() {
        for opcode in 0..=u8::MAX {
            let mut bytes = [0; Headers::MAX_LEN];
            bytes[0] = opcode;
            let whole = Headers::parse(&bytes);
            let Ok((headers, len)) = whole else {
                assert_eq!(whole, Err(ParseError::UnknownOpcode(opcode)));
                continue;
            };
            assert!(headers.is_consistent() && headers.len() == len);
            for cut in 0..len {
                let result = Headers::parse(&bytes[..cut]);
                assert!(
                    matches!(result, Err(ParseError::Truncated { .. })),
                    "{opcode:#x} cut to {cut}: {result:?}"
                );
            }
        }
    }
}
