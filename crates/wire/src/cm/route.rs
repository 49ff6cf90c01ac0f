//! Which program a datagram is for, when many share an address and so its one QP 1.

use super::{CmMad, CmMessage, IpCmHeader, RejReason, ServiceId};

/// Whom a datagram is for.
///
/// First messages name a service, later ones a connection by the number its owner gave it. Numbers are
/// meant to end in a suffix of the program, so that they can be told apart without knowing any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmRoute {
    /// For who listens for this service at this address.
    ByService {
        /// The service.
        service: ServiceId,
        /// Whether it is a datagram service (SIDR).
        datagram: bool,
        /// The sender's name for the connection or request, the same when the message is repeated.
        peer_id: u32,
        /// The IP addresses, of a request to a port that has them.
        addresses: Option<IpCmHeader>,
    },
    /// For who gave a connection or request this number.
    ById(u32),
    /// For who took the REQ in which the sender called a connection so: the sender does not know the
    /// receiver's number (a REJ after a REQ that nobody answered, IBTA 12.6.7).
    ByPeer(u32),
    /// For nobody: the message is not known, or refers to nothing.
    Nobody,
}

impl CmRoute {
    /// Whom `mad` is for.
    pub fn of(mad: &CmMad) -> Self {
        match &mad.message {
            CmMessage::Req(req) => CmRoute::ByService {
                service: req.service,
                datagram: false,
                peer_id: req.local_id,
                addresses: addresses(req.service, &*req.private_data),
            },
            CmMessage::SidrReq(req) => CmRoute::ByService {
                service: req.service,
                datagram: true,
                peer_id: req.request_id,
                addresses: addresses(req.service, &*req.private_data),
            },
            CmMessage::Rej(rej) if rej.remote_id == 0 && rej.reason == RejReason::TIMEOUT => {
                CmRoute::ByPeer(rej.local_id)
            }
            CmMessage::Rej(rej) => CmRoute::ById(rej.remote_id),
            CmMessage::Mra(mra) => CmRoute::ById(mra.remote_id),
            CmMessage::Rep(rep) => CmRoute::ById(rep.remote_id),
            CmMessage::Rtu(rtu) => CmRoute::ById(rtu.remote_id),
            CmMessage::Dreq(dreq) => CmRoute::ById(dreq.remote_id),
            CmMessage::Drep(drep) => CmRoute::ById(drep.remote_id),
            CmMessage::SidrRep(rep) => CmRoute::ById(rep.request_id),
            CmMessage::Unknown { .. } => CmRoute::Nobody,
        }
    }
}

fn addresses(service: ServiceId, private_data: &[u8]) -> Option<IpCmHeader> {
    service.port().and_then(|_| IpCmHeader::parse(private_data))
}
