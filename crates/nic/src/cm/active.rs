//! The side that asks: REP.

use alloc::boxed::Box;

use wire::cm::{CmMad, RejectedMessage, Rep, TransportService};

use super::receive::Origin;
use super::state::Input;
use super::{Cm, CmEvent, CmId, ConnectReply, Ece, Endpoint, State, stateless};
use crate::time::Instant;

impl Cm {
    pub(super) fn handle_rep(&mut self, now: Instant, origin: Origin, mad: &CmMad, rep: &Rep) {
        let found = self
            .find_ours(origin, rep.remote_id)
            .map(|(id, connection)| (id, connection.state, connection.transaction_id, connection.remote_id));
        match found {
            Some((id, State::ReqSent | State::MraReqRcvd, transaction_id, _))
                if transaction_id == mad.transaction_id =>
            {
                self.on_reply(now, id, mad, rep);
            }
            Some((id, state, _, remote_id)) if remote_id == rep.local_id => {
                self.on_repeated_reply(id, state);
            }
            _ => self.refuse_reply(origin, mad, rep),
        }
    }

    fn on_reply(&mut self, now: Instant, id: CmId, mad: &CmMad, rep: &Rep) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let is_xrc = connection.transport == TransportService::Xrc;
        connection.remote_id = rep.local_id;
        connection.remote = Endpoint {
            qpn: if is_xrc { rep.ee_context } else { rep.qpn },
            responder_resources: rep.responder_resources,
            initiator_depth: rep.initiator_depth,
            flow_control: rep.flow_control,
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq,
            qkey: rep.qkey,
            ece: Ece { vendor_id: rep.vendor_id, options: mad.attribute_modifier },
        };
        connection.send_psn = rep.starting_psn;
        let remote = connection.remote;
        connection.ack_timeout = ack_timeout(connection.path.packet_life_time, rep.target_ack_delay);
        self.advance(now, id, Input::Rep);
        if let Some(other) = self.connections.bind_remote_qpn(id) {
            self.supersede(now, other);
        }
        self.report(CmEvent::Reply(Box::new(ConnectReply {
            id,
            remote,
            send_psn: rep.starting_psn,
            remote_ca_guid: rep.ca_guid,
            target_ack_delay: rep.target_ack_delay,
            private_data: rep.private_data.to_vec(),
        })));
    }

    /// Our answer was lost, or there is none yet.
    fn on_repeated_reply(&mut self, id: CmId, state: State) {
        self.counters.duplicates += 1;
        match state {
            State::RepRcvd => self.ask_for_patience(id, RejectedMessage::Rep),
            State::Established | State::Timewait => {
                self.send_again(id);
            }
            _ => {}
        }
    }

    /// The peer accepted what we do not want any more, or never did: it should know.
    fn refuse_reply(&mut self, origin: Origin, mad: &CmMad, rep: &Rep) {
        self.counters.unmatched += 1;
        self.transmit(origin.path(), stateless::unwanted(mad, rep).emit());
    }
}

/// The ACK timeout of a queue pair: twice the life of a packet, and what the peer's adapter takes (IBTA
/// 12.7.34). All are exponents; the sum of two is the greater, or one more if they are close.
pub(super) const fn ack_timeout(packet_life_time: u8, ack_delay: u8) -> u8 {
    let round_trip = packet_life_time + 1;
    let timeout = if round_trip >= ack_delay {
        round_trip + (ack_delay + 1 >= round_trip) as u8
    } else {
        ack_delay + (round_trip + 1 >= ack_delay) as u8
    };
    if timeout > 31 { 31 } else { timeout }
}

#[cfg(test)]
mod tests {
    use super::ack_timeout;

    #[test]
    fn ack_timeouts_sum_exponents() {
        // The kernel's, as its requests in captures carry it: life time 18, delay 15.
        assert_eq!(ack_timeout(18, 15), 19);
        assert_eq!(ack_timeout(14, 15), 16);
        assert_eq!(ack_timeout(15, 15), 17);
        assert_eq!(ack_timeout(10, 15), 15);
        assert_eq!(ack_timeout(31, 31), 31);
    }
}
