//! One packet of the transport, from its BTH to its ICRC: what RoCE v2 carries in a UDP datagram.

use crate::{Headers, Icrc, Layer, ParseError};

/// A packet: headers by value, payload by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The transport headers. `bth.pad_count` is the length of `pad`.
    pub headers: Headers,
    /// The payload, without its padding.
    pub payload: &'a [u8],
    /// The bytes that make the payload a multiple of four.
    pub pad: &'a [u8],
    /// The invariant CRC.
    pub icrc: [u8; Icrc::LEN],
}

impl<'a> Packet<'a> {
    /// The packet with these headers and this payload, padded as it must be, and no ICRC yet.
    pub fn new(mut headers: Headers, payload: &'a [u8]) -> Self {
        let pad_count = payload.len().wrapping_neg() & 0x3;
        headers.bth.pad_count = pad_count as u8;
        Packet { headers, payload, pad: &[0; 3][..pad_count], icrc: [0; Icrc::LEN] }
    }

    /// Reads the packet that `bytes` are, from the BTH to the ICRC. Whether the
    /// ICRC is right is [`Icrc::verify`]'s to say: it depends on the network headers.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (headers, start) = Headers::parse(bytes)?;
        let rest = &bytes[start..];
        let Some((body, icrc)) = rest.split_last_chunk() else {
            return Err(ParseError::Truncated {
                layer: Layer::Icrc,
                needed: Icrc::LEN,
                available: rest.len(),
            });
        };
        let pad_count = usize::from(headers.bth.pad_count);
        let payload_len = body
            .len()
            .checked_sub(pad_count)
            .ok_or(ParseError::Length { layer: Layer::Bth, value: pad_count })?;
        let (payload, pad) = body.split_at(payload_len);
        Ok(Packet { headers, payload, pad, icrc: *icrc })
    }

    /// Writes the packet to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Packet::len`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let mut at = self.headers.emit(out);
        for part in [self.payload, self.pad, &self.icrc] {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        at
    }

    /// The length on the wire.
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub const fn len(&self) -> usize {
        self.headers.len() + self.payload.len() + self.pad.len() + Icrc::LEN
    }

    /// The ICRC that the packet should carry, behind the network headers in `path`.
    pub fn right_icrc(&self, path: Icrc) -> [u8; Icrc::LEN] {
        let mut headers = [0; Headers::MAX_LEN];
        let len = self.headers.emit(&mut headers);
        path.transport(&headers[..len]).update(self.payload).update(self.pad).finish()
    }
}
