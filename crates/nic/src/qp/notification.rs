//! The notification point: says to a sender that its packets meet congestion (IBTA A17.9.3).

use wire::{Bth, Headers, Opcode};

use super::connection::Connection;
use super::{Environment, single};
use crate::packet::{Arrival, Transmit};
use crate::time::Instant;

/// What a queue pair has to say about congestion.
#[derive(Debug, Default)]
pub(crate) struct NotificationPoint {
    is_due: bool,
    last: Option<Instant>,
}

impl NotificationPoint {
    /// The traffic class bits that tell of congestion, and the value that says it was met (RFC 3168).
    const ECN_MASK: u8 = 0b11;
    const CONGESTION_EXPERIENCED: u8 = 0b11;

    /// Looks at a packet's congestion mark.
    pub fn on_packet<M>(&mut self, env: &mut Environment<'_, M>, arrival: &Arrival) {
        if arrival.traffic_class & Self::ECN_MASK != Self::CONGESTION_EXPERIENCED {
            return;
        }
        env.counters.np_ecn_marked_roce_packets += 1;
        let interval = env.config.cnp_interval;
        let is_over = self.last.is_none_or(|last| env.now >= last + interval);
        if env.config.ecn && is_over {
            self.is_due = true;
            self.last = Some(env.now);
        }
    }

    /// Whether a notification is to be sent.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// The notification that is to be sent.
    pub fn poll_transmit<M>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
    ) -> Option<Transmit> {
        if !self.is_due {
            return None;
        }
        self.is_due = false;
        env.counters.np_cnp_sent += 1;
        let bth =
            Bth { opcode: Opcode::CNP, dest_qp: connection.attributes.dest_qp, becn: true, ..Bth::default() };
        let mut transmit = single(connection, Headers { bth, ..Headers::default() });
        // A notification must not be marked itself.
        transmit.route.traffic_class &= !Self::ECN_MASK;
        Some(transmit)
    }
}
