//! Everything together, and the rules.

use nic::time::Duration;
use nic::verbs::*;
use nic::{Instant, Payload};
use wire::{Headers, Qpn};

use super::ledger::{Effect, Receive, Send};
use super::network::{Addresses, Network, Packet, packets};
use super::operation::{Operation, Setup, Side, Transport};
use super::pair::Pair;
use super::peer::{Peer, slot_address};

/// Two adapters, the network between them, and what the model knows.
pub struct World {
    pub peers: [Peer; 2],
    pub network: Network,
    pub addresses: Addresses,
    pub pairs: Vec<Pair>,
    pub now: Instant,
    next_wr_id: u64,
    /// Packets were lost or late: requests may run out of retries.
    pub is_lossy: bool,
    /// Packets or requests were made that nobody should make: what memory and messages hold is open.
    pub is_hostile: bool,
    /// Completion queues may overrun.
    is_cramped: bool,
}

/// Bytes that a receive for datagrams holds before the message (IBTA 11.4.1.2).
const GRH: usize = 40;

impl World {
    pub fn new(setup: &Setup) -> Self {
        let addresses = Addresses { is_ipv6: setup.is_ipv6 };
        Self {
            peers: Side::BOTH.map(|side| Peer::new(side, setup, addresses)),
            addresses,
            network: Network::default(),
            pairs: Vec::new(),
            now: Instant::ZERO,
            next_wr_id: 1,
            is_lossy: false,
            is_hostile: false,
            is_cramped: setup.is_cramped,
        }
    }

    pub fn peer(&mut self, side: Side) -> &mut Peer {
        &mut self.peers[side.index()]
    }

    pub fn wr_id(&mut self) -> u64 {
        self.next_wr_id += 1;
        self.next_wr_id
    }

    /// The index of a pair, if there is any.
    pub fn pair(&self, pick: u8) -> Option<usize> {
        usize::from(pick).checked_rem(self.pairs.len())
    }

    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Connect(connect) => self.connect(connect),
            Operation::Post(post) => self.post(post),
            Operation::Receive { end, count } => self.receive(*end, *count),
            Operation::ReceiveShared { side, count } => self.receive_shared(*side, *count),
            Operation::JoinGroup { end, leave } => self.join(*end, *leave),
            Operation::Bind { end } => self.bind(*end),
            Operation::Invalidate { end, by_peer } => self.invalidate(*end, *by_peer),
            Operation::Drain { end, notify } => self.drain(*end, *notify),
            Operation::Resume { end } => self.resume(*end),
            Operation::Relay { end } => self.relay(*end),
            Operation::Deliver { count } => self.deliver(match count {
                240.. => usize::MAX,
                _ => usize::from(count % 12) + 1,
            }),
            Operation::Lose { pick } => self.is_lossy |= self.network.lose(*pick),
            Operation::Double { pick } => self.is_lossy |= self.network.double(*pick),
            Operation::Delay { pick } => self.is_lossy |= self.network.delay(*pick),
            Operation::Wait { microseconds } => {
                let is_held = self.peers.iter().any(|peer| peer.held.is_some());
                self.is_lossy |= is_held || !self.network.is_empty();
                self.wait(self.now + Duration::from_micros(u64::from(*microseconds)));
            }
            Operation::Corrupt { pick, mutation } => {
                self.is_hostile |= self.network.corrupt(*pick, mutation);
            }
            Operation::Hold { side, runs } => self.peer(*side).held = *runs,
            Operation::Poll { side, count } => self.poll(*side, usize::from(*count)),
            Operation::Arm { side, receive, solicited_only } => {
                self.arm(*side, *receive, *solicited_only);
            }
            other => self.apply_verb(other),
        }
        self.pump();
    }

    /// Puts on the network what the adapters send, and hears what they tell.
    pub fn pump(&mut self) {
        for side in Side::BOTH {
            let peer = &mut self.peers[side.index()];
            let mut rest = peer.held.map_or(usize::MAX, usize::from);
            while rest > 0
                && let Some(transmit) = peer.nic.poll_transmit(self.now, 3)
            {
                rest -= 1;
                let count = transmit.packets();
                assert!((1..=3).contains(&count), "{count} packets");
                for packet in packets(&transmit, &mut peer.nic, side.other()) {
                    self.network.send(packet);
                }
            }
            self.hear(side);
        }
    }

    fn hear(&mut self, side: Side) {
        let peer = &mut self.peers[side.index()];
        let mut drained = Vec::new();
        while let Some(event) = peer.nic.poll_event() {
            match event {
                Event::Completion(cq) => {
                    let queue =
                        [&mut peer.send_cq, &mut peer.recv_cq].into_iter().find(|queue| queue.cq == cq);
                    let queue = queue.expect("the queue exists");
                    assert!(queue.armed, "nobody asked for an event");
                    queue.armed = false;
                }
                Event::Async(AsyncEvent::LastWqeReached(qpn)) => peer.last_wqe_reached.push(qpn),
                Event::Async(AsyncEvent::SqDrained(qpn)) => drained.push(qpn),
                Event::Async(AsyncEvent::CqError(cq)) => {
                    let queue =
                        [&mut peer.send_cq, &mut peer.recv_cq].into_iter().find(|queue| queue.cq == cq);
                    let queue = queue.expect("the queue exists");
                    assert!(!queue.is_dead && self.is_cramped, "it has room, or told before");
                    queue.is_dead = true;
                    // Queue pairs end at any time from now on.
                    self.is_hostile = true;
                }
                Event::Async(_) => {}
            }
        }
        for qpn in drained {
            self.on_drained(side, qpn);
        }
    }

    fn arm(&mut self, side: Side, receive: bool, solicited_only: bool) {
        let peer = self.peer(side);
        let queue = if receive { &mut peer.recv_cq } else { &mut peer.send_cq };
        let expected = if queue.is_dead { Err(CqError::Overrun) } else { Ok(()) };
        assert_eq!(peer.nic.req_notify_cq(queue.cq, solicited_only), expected);
        queue.armed |= !queue.is_dead;
    }

    pub fn deliver(&mut self, count: usize) {
        for _ in 0..count {
            let Some(packet) = self.network.take() else { return };
            self.deliver_packet(&packet);
            self.pump();
        }
    }

    pub fn deliver_packet(&mut self, packet: &Packet) {
        let Ok((headers, at)) = Headers::parse(&packet.bytes) else { return };
        let payload = Payload::Bytes(&packet.bytes[at..]);
        let now = self.now;
        self.peer(packet.to).nic.handle_packet(now, &packet.arrival, &headers, payload);
    }

    pub fn wait(&mut self, until: Instant) {
        self.now = until;
        for side in Side::BOTH {
            self.peers[side.index()].nic.handle_timeout(until);
        }
    }

    /// Takes completions off the queues of a side.
    pub fn poll(&mut self, side: Side, count: usize) {
        for _ in 0..count {
            let Peer { nic, send_cq, recv_cq, .. } = self.peer(side);
            let [sent, received] = [send_cq, recv_cq].map(|queue| {
                let polled = nic.poll_cq(queue.cq);
                assert!(polled.is_ok() || queue.is_dead, "{polled:?}");
                polled.unwrap_or(None)
            });
            if let Some(completion) = &sent {
                self.on_sent(side, completion);
            }
            if let Some(completion) = &received {
                self.on_received(side, completion);
            }
            if sent.is_none() && received.is_none() {
                return;
            }
        }
    }

    fn on_sent(&mut self, side: Side, completion: &Completion) {
        let at = self.pair_of(side, completion.qpn);
        let peer_works = matches!(self.state(at, side.other()), Some(QpState::Rts | QpState::Sqd));
        let pair = &mut self.pairs[at];
        let (transport, is_honest) = (pair.transport, pair.is_honest && !self.is_hostile);
        let done = pair.end(side).ledger.complete_send(completion);
        if is_honest {
            let may_fail = match completion.status {
                Status::Success => true,
                Status::RetryExceeded => self.is_lossy || !peer_works,
                Status::RnrRetryExceeded => pair.may_run_out_of_receives,
                Status::WorkRequestFlushed => true,
                _ => false,
            };
            assert!(may_fail, "{completion:?} of an honest pair");
        }
        for send in done {
            if is_honest && transport == Transport::Rc {
                self.check_effect(side, &send.effect);
            }
            if let Effect::Window { of, to } = send.effect {
                self.pairs[at].end(of).window = to;
            }
            if send.through_window {
                self.pairs[at].end(side.other()).window_in_use = false;
            }
            for (owner, slot) in send.slots {
                self.peer(owner).give_slot(slot);
            }
        }
    }

    fn on_received(&mut self, side: Side, completion: &Completion) {
        let at = self.pair_of(side, completion.qpn);
        let pair = &mut self.pairs[at];
        let endpoint = &mut pair.ends[side.index()];
        let peer = &mut self.peers[side.index()];
        let receive = if endpoint.is_shared {
            peer.shared.remove(&completion.wr_id).expect("it was posted and is not complete")
        } else {
            endpoint.ledger.complete_receive(completion)
        };
        let is_honest = pair.is_honest && !self.is_hostile;
        if is_honest && completion.status == Status::Success {
            let length = completion.byte_length as usize;
            let skip = if pair.transport == Transport::Ud { GRH } else { 0 };
            assert_eq!(completion.has_grh, pair.transport == Transport::Ud);
            let length = length.checked_sub(skip).expect("the network header counts");
            let address = receive.slot.map_or(0, slot_address) + skip as u64;
            let data = peer.nic.memory().at(address, length).to_vec();
            endpoint.accept(pair.transport, completion, length, &data);
        } else if is_honest {
            let state = peer.nic.query_qp(completion.qpn).map(|attributes| attributes.state);
            assert_eq!(completion.status, Status::WorkRequestFlushed, "{completion:?} of an honest pair");
            assert_eq!(state, Some(QpState::Error));
        }
        if let Some(slot) = receive.slot {
            self.peer(side).give_slot(slot);
        }
    }

    pub fn pair_of(&mut self, side: Side, qpn: Qpn) -> usize {
        let is_it = |pair: &Pair| pair.ends[side.index()].is_alive && pair.ends[side.index()].qpn == qpn;
        self.pairs.iter().position(is_it).expect("completions are of queue pairs that exist")
    }

    /// Lets everything happen that is still to happen, on a network that is well again.
    fn settle(&mut self) {
        /// Longer than the retries of every pair take, at the timeout of `traffic`.
        const LIMIT: Duration = Duration::from_millis(40);
        let limit = self.now + LIMIT;
        for _ in 0..20_000 {
            self.pump();
            if !self.network.is_empty() {
                self.deliver(usize::MAX);
                continue;
            }
            let due =
                Side::BOTH.into_iter().filter_map(|side| self.peers[side.index()].nic.poll_timeout()).min();
            match due {
                Some(due) if due <= limit => self.wait(due.max(self.now)),
                _ => break,
            }
        }
        for side in Side::BOTH {
            self.poll(side, usize::MAX);
        }
    }

    /// Brings everything to its end and checks that nothing is left over.
    pub fn finish(mut self) {
        for side in Side::BOTH {
            let entry = self.addresses.entry(side);
            self.peer(side).nic.set_gid(0, Some(entry));
            self.peer(side).held = None;
        }
        self.settle();
        self.finish_draining();
        self.settle();
        for at in 0..self.pairs.len() {
            for side in Side::BOTH {
                self.check_progress(at, side);
            }
        }
        self.network.clear();
        for at in 0..self.pairs.len() {
            for side in Side::BOTH {
                self.finish_endpoint(at, side);
            }
        }
        for pair in &self.pairs {
            for side in Side::BOTH {
                let mw = pair.ends[side.index()].mw;
                assert_eq!(self.peers[side.index()].nic.dealloc_mw(mw), Ok(()));
            }
        }
        for peer in self.peers {
            peer.end();
        }
    }

    /// What could be done was done.
    fn check_progress(&mut self, at: usize, side: Side) {
        let stuck = self.pairs[at].end(side).ledger.sends.iter().find(|send| send.signaled);
        let stuck = stuck.cloned();
        if self.must_progress(at, side, QpState::Rts) {
            assert!(stuck.is_none(), "{stuck:?} is never done");
        }
    }

    /// Whether nothing keeps a queue pair in this state from getting its sends done.
    pub fn must_progress(&mut self, at: usize, side: Side, expected: QpState) -> bool {
        let (own, other) = (self.state(at, side), self.state(at, side.other()));
        let pair = &mut self.pairs[at];
        let target = &pair.ends[side.other().index()];
        let is_received = match target.is_shared {
            true => !self.peers[side.other().index()].shared.is_empty(),
            false => !target.ledger.receives.is_empty(),
        };
        let may_wait = pair.transport == Transport::Rc && !is_received;
        let peer_works = matches!(other, Some(QpState::Rts | QpState::Sqd));
        pair.is_honest && !self.is_hostile && own == Some(expected) && peer_works && !may_wait
    }

    pub fn state(&mut self, at: usize, side: Side) -> Option<QpState> {
        let qpn = self.pairs[at].end(side).qpn;
        self.peer(side).nic.query_qp(qpn).map(|attributes| attributes.state)
    }

    /// Flushes a queue pair and destroys it.
    fn finish_endpoint(&mut self, at: usize, side: Side) {
        let endpoint = self.pairs[at].end(side);
        if !endpoint.is_alive {
            return;
        }
        let (qpn, is_shared) = (endpoint.qpn, endpoint.is_shared);
        let now = self.now;
        let before = self.peer(side).nic.query_qp(qpn).expect("it lives").state;
        let to_error = QpChange { state: Some(QpState::Error), ..QpChange::default() };
        let moved = self.peer(side).nic.modify_qp(now, qpn, &to_error);
        assert_eq!(moved.is_ok(), before != QpState::Reset, "{before:?}");
        self.pairs[at].is_honest = false;
        if moved.is_ok() {
            self.post_in_error(at, side);
        }
        self.pump();
        self.poll(side, usize::MAX);
        let peer = &mut self.peers[side.index()];
        let endpoint = &mut self.pairs[at].ends[side.index()];
        let unfinished = endpoint.ledger.sends.iter().find(|send| send.signaled);
        assert!(unfinished.is_none() || peer.send_cq.is_dead, "{unfinished:?} is not flushed");
        let unfinished = endpoint.ledger.receives.front();
        assert!(unfinished.is_none() || peer.recv_cq.is_dead, "{unfinished:?} is not flushed");
        if is_shared && moved.is_ok() {
            assert!(peer.last_wqe_reached.contains(&qpn));
        }
        if endpoint.is_member {
            peer.nic.detach_mcast(qpn, self.addresses.group()).expect("it is a member");
        }
        assert_eq!(peer.nic.destroy_qp(qpn), Ok(()));
        endpoint.is_alive = false;
    }

    /// What is posted in the error state is flushed too.
    fn post_in_error(&mut self, at: usize, side: Side) {
        let (send_id, receive_id, now) = (self.wr_id(), self.wr_id(), self.now);
        let ah = self.peer(side).ah;
        let Pair { transport, ends, .. } = &mut self.pairs[at];
        let endpoint = &mut ends[side.index()];
        let destination = DatagramDestination { ah, qpn: endpoint.qpn, qkey: 0 };
        let request = SendRequest {
            wr_id: send_id,
            operation: SendOperation::Send,
            data: SendData::Gather(&[]),
            flags: SendFlags::default(),
            destination: (*transport == Transport::Ud).then_some(destination),
        };
        let nic = &mut self.peers[side.index()].nic;
        if endpoint.ledger.sends.is_empty() {
            assert_eq!(nic.post_send(now, endpoint.qpn, &request), Ok(()));
            // It fails, and so completes, signaled or not.
            endpoint.ledger.sends.push_back(Send::new(send_id, Effect::Unknown));
        }
        if !endpoint.is_shared && endpoint.ledger.receives.is_empty() {
            let request = RecvRequest { wr_id: receive_id, scatter: &[] };
            assert_eq!(nic.post_recv(now, endpoint.qpn, &request), Ok(()));
            endpoint.ledger.receives.push_back(Receive { wr_id: receive_id, slot: None });
        }
    }
}
