//! Management datagrams as packets of QP 1.

use alloc::sync::Arc;

use wire::cm::CmMad;
use wire::{Bth, Deth, Extended, Headers, Opcode, Operation, Psn, Qpn, Service};

use crate::packet::{PayloadSource, Route, Run, Transmit};

/// The queue key of QP 1.
const GSI_QKEY: u32 = 0x8001_0000;

/// A datagram for QP 1 of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmTransmit {
    /// Where to.
    pub route: Route,
    /// The payload.
    pub mad: [u8; CmMad::LEN],
}

impl CmTransmit {
    /// The packet that carries it, as an adapter's packets leave.
    pub fn into_transmit(self, psn: Psn) -> Transmit {
        let length = self.mad.len() as u32;
        Transmit {
            route: self.route,
            source_qp: Qpn::GSI,
            payload: PayloadSource::Inline { bytes: Arc::from(self.mad), range: 0..length },
            payload_length: length,
            first: Self::headers(psn),
            run: Run::SINGLE,
        }
    }

    /// The headers of the packet that carries it. QP 1 numbers its packets, though nobody looks.
    pub fn headers(psn: Psn) -> Headers {
        Headers {
            bth: Bth {
                opcode: Opcode::new(Service::Ud, Operation::SendOnly),
                dest_qp: Qpn::GSI,
                pkey: 0xFFFF,
                psn,
                ..Bth::default()
            },
            extended: Extended::Deth(Deth { qkey: GSI_QKEY, source_qp: Qpn::GSI }),
            ..Headers::default()
        }
    }
}

/// Whether a packet that arrived is a management datagram for QP 1, from QP 1: its payload is for
/// [`Cm::handle_mad`](super::Cm::handle_mad).
pub fn is_cm_datagram(headers: &Headers) -> bool {
    let Extended::Deth(deth) = headers.extended else { return false };
    headers.bth.dest_qp == Qpn::GSI && deth.qkey == GSI_QKEY && deth.source_qp == Qpn::GSI
}
