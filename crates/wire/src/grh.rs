//! The InfiniBand global route header (IBTA vol. 1, 8.3), which RoCE v1 puts
//! directly into an Ethernet frame (annex A16).

use crate::bytes::{array, put, u16_at};
use crate::error::fixed;
use crate::ip::{FirstWord, clamp};
use crate::{Gid, Layer, ParseError};

/// The global route header: laid out as IPv6 is, with its own meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grh {
    /// TClass: the service asked for.
    pub traffic_class: u8,
    /// What routers keep on one path, 20 bits.
    pub flow_label: u32,
    /// The length of all that follows this header, the ICRC included.
    pub payload_len: u16,
    /// What follows: [`Grh::NEXT_TRANSPORT`] for a BTH.
    pub next_header: u8,
    /// How many more routers may forward the packet.
    pub hop_limit: u8,
    /// Whom the packet is from.
    pub source: Gid,
    /// Whom it is for.
    pub destination: Gid,
}

impl Grh {
    /// The length on the wire.
    pub const LEN: usize = 40;

    /// The `next_header` that announces a BTH.
    pub const NEXT_TRANSPORT: u8 = 0x1B;

    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let b: &[u8; Self::LEN] = fixed(Layer::Grh, bytes)?;
        let first = FirstWord::parse(Layer::Grh, b)?;
        Ok(Grh {
            traffic_class: first.traffic_class,
            flow_label: first.flow_label,
            payload_len: u16_at(b, 4),
            next_header: b[6],
            hop_limit: b[7],
            source: Gid(array(b, 8)),
            destination: Gid(array(b, 24)),
        })
    }

    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Grh::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..Self::LEN];
        let first = FirstWord { traffic_class: self.traffic_class, flow_label: self.flow_label };
        put(out, 0, first.bytes());
        put(out, 4, self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        put(out, 8, self.source.0);
        put(out, 24, self.destination.0);
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

impl Default for Grh {
    /// A template: a BTH follows, 64 hops.
    fn default() -> Self {
        Grh {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: Grh::NEXT_TRANSPORT,
            hop_limit: 64,
            source: Gid::UNSPECIFIED,
            destination: Gid::UNSPECIFIED,
        }
    }
}
