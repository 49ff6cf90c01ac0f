//! Where a datagram belongs.

use wire::Gid;
use wire::cm::{CmMad, CmMessage};

use super::connections::Connection;
use super::{Cm, CmId, Path};
use crate::packet::Arrival;
use crate::time::Instant;

/// Where a datagram came from, and to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// Who sent it.
    pub peer: Gid,
    /// Which of our addresses it came to.
    pub local: Gid,
    /// The index of that.
    pub gid_index: u8,
}

impl Origin {
    /// The way back to one of whom nothing else is known.
    pub fn path(&self) -> Path {
        Path {
            source: self.local,
            destination: self.peer,
            source_gid_index: self.gid_index,
            ..Path::default()
        }
    }
}

impl Cm {
    /// Takes one datagram that came to QP 1 ([`is_cm_datagram`](super::is_cm_datagram)): its payload,
    /// and the index in the GID table of the address that it came to.
    pub fn handle_mad(&mut self, now: Instant, arrival: &Arrival, gid_index: u8, bytes: &[u8]) {
        self.counters.received += 1;
        let is_answerable = !arrival.source.is_unspecified()
            && !arrival.source.is_multicast()
            && !arrival.destination.is_multicast();
        let Some(mad) = CmMad::parse(bytes).ok().filter(|_| is_answerable) else {
            self.counters.malformed += 1;
            return;
        };
        let origin = Origin { peer: arrival.source, local: arrival.destination, gid_index };
        match &mad.message {
            CmMessage::Req(req) => self.handle_req(now, origin, &mad, req),
            CmMessage::Mra(mra) => self.handle_mra(now, origin, mra),
            CmMessage::Rej(rej) => self.handle_rej(now, origin, rej),
            CmMessage::Rep(rep) => self.handle_rep(now, origin, &mad, rep),
            CmMessage::Rtu(rtu) => self.handle_rtu(now, origin, rtu),
            CmMessage::Dreq(dreq) => self.handle_dreq(now, origin, &mad, dreq),
            CmMessage::Drep(drep) => self.handle_drep(now, origin, drep),
            CmMessage::SidrReq(req) => self.handle_sidr_req(origin, &mad, req),
            CmMessage::SidrRep(rep) => self.handle_sidr_rep(now, origin, &mad, rep),
            // Nobody migrates paths here, and a sender of something else does not wait for an answer.
            CmMessage::Unknown { .. } => self.counters.malformed += 1,
        }
    }

    /// The connection that we call `ours` and a peer calls `theirs`, if the datagram came from that peer.
    pub(super) fn find(&self, origin: Origin, ours: u32, theirs: u32) -> Option<CmId> {
        let (id, connection) = self.find_ours(origin, ours)?;
        (connection.remote_id == theirs).then_some(id)
    }

    /// The connection that we call `ours`, if the datagram came from its peer.
    pub(super) fn find_ours(&self, origin: Origin, ours: u32) -> Option<(CmId, &Connection)> {
        let id = CmId(ours);
        let connection = self.connections.get(id)?;
        (connection.path.destination == origin.peer).then_some((id, connection))
    }
}
