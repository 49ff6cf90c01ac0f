//! The data path: posting, packets and time.

use wire::{Headers, Qpn};

use crate::memory::{Memory, Payload};
use crate::nic::Nic;
use crate::packet::{Arrival, Transmit};
use crate::time::Instant;
use crate::verbs::*;

impl<M: Memory> Nic<M> {
    /// Posts a send request.
    pub fn post_send(&mut self, now: Instant, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), PostError> {
        let _ = (now, qpn, request);
        todo!()
    }

    /// Posts a receive request.
    pub fn post_recv(&mut self, now: Instant, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let _ = (now, qpn, request);
        todo!()
    }

    /// What `modify_qp` does beside setting attributes: they are those asked for already, and its state
    /// is the new one, which is not RESET.
    pub(crate) fn on_modified(&mut self, now: Instant, qpn: Qpn, from: QpState, change: &QpChange) {
        let _ = (now, qpn, from, change);
        todo!()
    }

    /// Takes one packet off the wire. `payload` is what follows the headers, pad included, ICRC not.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        headers: &Headers,
        payload: Payload<'_>,
    ) {
        let _ = (now, arrival, headers, payload);
        todo!()
    }

    /// The next run of at most `max_packets` packets to put on the wire.
    pub fn poll_transmit(&mut self, now: Instant, max_packets: usize) -> Option<Transmit> {
        let _ = (now, max_packets);
        todo!()
    }

    /// When [`Self::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }
}
