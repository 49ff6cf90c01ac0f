//! READs and atomics at the responder: what is to be answered, and what may be asked for again.

use alloc::collections::VecDeque;

use wire::{Aeth, AtomicAckEth, AtomicEth, Extended, Headers, Operation, Psn, Reth, Syndrome};

use super::inbound::Refusal;
use crate::keys::RemoteNeed;
use crate::memory::{Memory, Segment};
use crate::packet::{Message, PayloadSource, Run, Transmit};
use crate::qp::connection::Connection;
use crate::qp::{Environment, single};

/// The latest READs and atomics of the peer, as many as it may have outstanding, and their replies that
/// are still to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// In the order of their PSNs.
    known: VecDeque<Known>,
    /// In the order of their PSNs; at most one for each that is known.
    pending: VecDeque<Pending>,
}

/// A READ or atomic that was carried out.
#[derive(Clone, Copy, Debug)]
struct Known {
    first: Psn,
    /// How many PSNs its reply takes.
    packets: u32,
    msn: u32,
    content: Content,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Bytes of memory. A READ is carried out as it is sent.
    Read { address: u64, rkey: u32, length: u32 },
    /// What the word held, saved because an atomic is never carried out again.
    Atomic { original: u64 },
}

/// A reply that is still to be sent, or the rest of it.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The next packet's.
    psn: Psn,
    /// The PSN after the last packet's; tells which of the known it is.
    end: Psn,
    msn: u32,
    /// What is left to say.
    content: Content,
    /// Whether nothing of it was sent.
    begins: bool,
    /// Whether it was asked for again.
    is_replay: bool,
}

/// A message is at most 2^31 bytes (IBTA 9.3.3).
const LONGEST: u32 = 1 << 31;

impl Replies {
    /// Whether nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether an atomic's result is sent next.
    pub fn is_atomic_next(&self) -> bool {
        self.pending.front().is_some_and(|reply| matches!(reply.content, Content::Atomic { .. }))
    }

    /// Forgets what is to be sent.
    pub fn clear(&mut self) {
        self.pending.clear();
    }

    /// Takes a new READ; returns how many PSNs its response takes.
    pub fn read<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &Environment<'_, M>,
        psn: Psn,
        reth: Reth,
        msn: u32,
    ) -> Result<u32, Refusal> {
        let allowed = RemoteNeed::Read.is_allowed_by(connection.attributes.access);
        if !allowed || reth.length > LONGEST {
            return Err(Refusal::InvalidRequest);
        }
        let (pd, qpn, length) = (connection.pd(), connection.qpn, u64::from(reth.length));
        env.keys
            .remote(pd, qpn, reth.rkey, reth.va, length, RemoteNeed::Read)
            .map_err(|_| Refusal::Access)?;
        let packets = connection.packets(reth.length);
        let content = Content::Read { address: reth.va, rkey: reth.rkey, length: reth.length };
        self.add(connection, Known { first: psn, packets, msn, content })?;
        Ok(packets)
    }

    /// Carries a new atomic out.
    pub fn atomic<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        psn: Psn,
        operation: Operation,
        operands: AtomicEth,
        msn: u32,
    ) -> Result<(), Refusal> {
        let allowed = RemoteNeed::Atomic.is_allowed_by(connection.attributes.access);
        if !allowed || !operands.va.is_multiple_of(8) {
            return Err(Refusal::InvalidRequest);
        }
        let (pd, qpn) = (connection.pd(), connection.qpn);
        let address = env
            .keys
            .remote(pd, qpn, operands.rkey, operands.va, 8, RemoteNeed::Atomic)
            .map_err(|_| Refusal::Access)?;
        self.make_room(connection)?;
        let original = match operation {
            Operation::CompareSwap => {
                env.memory.compare_swap(address, operands.compare, operands.swap_or_add)
            }
            _ => env.memory.fetch_add(address, operands.swap_or_add),
        };
        let content = Content::Atomic { original };
        self.add(connection, Known { first: psn, packets: 1, msn, content })
    }

    /// A READ is asked for again, from its beginning or from where its response broke off. What is
    /// outside the READ that was granted is ignored; nothing here can wrap.
    pub fn replay_read(&mut self, psn: Psn, reth: Reth) {
        let Some(known) = self.find(psn) else { return };
        let Content::Read { address, rkey, length } = known.content else { return };
        let Some(offset) = reth.va.checked_sub(address) else { return };
        let is_inside =
            u64::from(length).checked_sub(offset).is_some_and(|rest| u64::from(reth.length) <= rest);
        if !is_inside || rkey != reth.rkey {
            return;
        }
        let content = Content::Read { address: reth.va, rkey, length: reth.length };
        self.replay(known, psn, content);
    }

    /// An atomic is asked for again: its saved result is.
    pub fn replay_atomic(&mut self, psn: Psn) {
        let Some(known) = self.find(psn) else { return };
        if matches!(known.content, Content::Atomic { .. }) {
            self.replay(known, psn, known.content);
        }
    }

    /// The next run of at most `max_packets` packets. An error if the memory that the reply with this
    /// PSN reads has gone away; nothing is to be sent then.
    pub fn poll_transmit<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &Environment<'_, M>,
        max_packets: u32,
    ) -> Result<Option<Transmit>, Psn> {
        let Some(reply) = self.pending.front_mut() else { return Ok(None) };
        let aeth = Aeth { syndrome: Syndrome::default(), msn: reply.msn };
        match reply.content {
            Content::Atomic { original } => {
                let headers = Headers {
                    extended: Extended::AtomicAck(aeth, AtomicAckEth { original }),
                    ..connection.headers(Operation::AtomicAck, reply.psn)
                };
                self.pending.pop_front();
                Ok(Some(single(connection, headers)))
            }
            Content::Read { .. } => match reply.next_run(connection, env, max_packets, aeth) {
                Some((transmit, is_last)) => {
                    if is_last {
                        self.pending.pop_front();
                    }
                    Ok(Some(transmit))
                }
                None => {
                    let psn = reply.psn;
                    self.pending.clear();
                    Err(psn)
                }
            },
        }
    }

    fn add(&mut self, connection: Connection<'_>, known: Known) -> Result<(), Refusal> {
        self.make_room(connection)?;
        self.known.push_back(known);
        self.pending.push_back(Pending {
            psn: known.first,
            end: known.end(),
            msn: known.msn,
            content: known.content,
            begins: true,
            is_replay: false,
        });
        Ok(())
    }

    /// Forgets the oldest, if it must be, for another. The peer has its reply, since it may not have
    /// more outstanding; it asks for too much if its reply was not even sent once.
    fn make_room(&mut self, connection: Connection<'_>) -> Result<(), Refusal> {
        let most = usize::from(connection.attributes.max_dest_rd_atomic);
        if most == 0 {
            return Err(Refusal::InvalidRequest);
        }
        while self.known.len() >= most {
            let Some(oldest) = self.known.front() else { break };
            let end = oldest.end();
            if let Some(at) = self.pending.iter().position(|reply| reply.end == end) {
                if !self.pending[at].is_replay {
                    return Err(Refusal::InvalidRequest);
                }
                self.pending.remove(at);
            }
            self.known.pop_front();
        }
        Ok(())
    }

    fn find(&self, psn: Psn) -> Option<Known> {
        let holds = |known: &&Known| (0..known.packets as i32).contains(&psn.distance(known.first));
        self.known.iter().find(holds).copied()
    }

    /// Sends a reply again from `psn` on, in its place by PSN. If it is still being sent, it goes on
    /// from there at the earliest.
    fn replay(&mut self, known: Known, psn: Psn, content: Content) {
        let end = known.end();
        let reply = Pending { psn, end, msn: known.msn, content, begins: true, is_replay: true };
        match self.pending.iter().position(|other| !other.end.is_before(end)) {
            Some(at) if self.pending[at].end == end => {
                if psn.is_before(self.pending[at].psn) {
                    self.pending[at] = reply;
                }
            }
            Some(at) => self.pending.insert(at, reply),
            None => self.pending.push_back(reply),
        }
    }
}

impl Known {
    fn end(&self) -> Psn {
        self.first + self.packets
    }
}

impl Pending {
    /// The next run of a READ response, and whether it is the last; nothing if its memory has gone away.
    fn next_run<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &Environment<'_, M>,
        max_packets: u32,
        aeth: Aeth,
    ) -> Option<(Transmit, bool)> {
        let Content::Read { address, rkey, length } = self.content else { return None };
        let mtu = connection.mtu();
        let remaining = connection.packets(length);
        let packets = remaining.min(max_packets);
        let ends = packets == remaining;
        let sent = length.min(packets * mtu);
        let (pd, qpn) = (connection.pd(), connection.qpn);
        let place = env.keys.remote(pd, qpn, rkey, address, u64::from(sent), RemoteNeed::Read).ok()?;
        let first = Headers {
            extended: Extended::Aeth(aeth),
            ..connection.headers(Operation::ReadResponseOnly, self.psn)
        };
        let message = Message::ReadResponse;
        // A READ of nothing may name anything.
        let segment = (sent > 0).then_some(Segment { address: place, length: sent });
        let transmit = Transmit {
            route: *connection.route,
            source_qp: connection.qpn,
            payload: PayloadSource::Memory(segment.into_iter().collect()),
            payload_length: sent,
            first,
            run: Run { message, packets, mtu, begins: self.begins, ends, ack_request: false },
        };
        self.psn += packets;
        self.begins = false;
        self.content =
            Content::Read { address: address.wrapping_add(u64::from(sent)), rkey, length: length - sent };
        Some((transmit, ends))
    }
}
