//! All connections, and the ways to find them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::cm::{CmMad, ServiceId, TransportService};
use wire::{Gid, Psn, Qpn};

use super::config::Backoff;
use super::{CmConfig, CmId, Endpoint, ListenerId, Path, Patience, State};
use crate::table::Table;
use crate::time::{Duration, Instant};

/// A connection, or the resolution of a datagram service.
#[derive(Debug)]
pub(super) struct Connection {
    /// Where it stands.
    pub state: State,
    /// Whether our program still has its name.
    pub is_owned: bool,
    /// Whether both queue pairs were ready at some time, so that packets may be under way.
    pub was_established: bool,
    /// Whose backlog it counts in: who took it in, as long as our program has not dealt with it. That it
    /// is over does not free the place, or peers could make us remember any number of requests.
    pub backlog_of: Option<ListenerId>,
    /// The way to the peer.
    pub path: Path,
    /// Of the exchange that made it.
    pub transaction_id: u64,
    /// The peer's name for it; 0 as long as that is not known.
    pub remote_id: u32,
    /// What is asked for.
    pub service: ServiceId,
    /// The kind of connection.
    pub transport: TransportService,
    /// What we bring.
    pub local: Endpoint,
    /// What the peer brings.
    pub remote: Endpoint,
    /// The first PSN that the peer sends; we choose it.
    pub receive_psn: Psn,
    /// The first PSN that we send; the peer chooses it.
    pub send_psn: Psn,
    /// The ACK timeout of our queue pair.
    pub ack_timeout: u8,
    /// Its retries after a timeout.
    pub retry_count: u8,
    /// How patient both sides are.
    pub patience: Patience,
    /// What was sent last that may have to be sent again: because no answer came, or because the
    /// message that it answers came again.
    pub last: Option<Box<[u8; CmMad::LEN]>>,
    /// When to send it again.
    pub backoff: Backoff,
    /// When something has to happen; changed by [`Connections::set_deadline`] alone.
    pub deadline: Option<Instant>,
}

impl Connection {
    /// One that begins in `state`.
    pub fn new(state: State, path: Path, patience: Patience) -> Self {
        Self {
            state,
            is_owned: true,
            was_established: false,
            backlog_of: None,
            path,
            transaction_id: 0,
            remote_id: 0,
            service: ServiceId::default(),
            transport: TransportService::Rc,
            local: Endpoint::default(),
            remote: Endpoint::default(),
            receive_psn: Psn::ZERO,
            send_psn: Psn::ZERO,
            ack_timeout: 0,
            retry_count: 0,
            patience,
            last: None,
            backoff: Backoff::default(),
            deadline: None,
        }
    }

    /// How a message is repeated until it is answered.
    pub fn new_backoff(&self, config: &CmConfig) -> Backoff {
        let answer = super::cm_timeout(self.patience.remote_response_timeout) + self.round_trip();
        let ceiling = answer.max(config.first_retry).min(config.longest_retry);
        Backoff::new(config.first_retry, ceiling, self.patience.max_retries)
    }

    /// The longest way there and back.
    pub fn round_trip(&self) -> Duration {
        let life = super::cm_timeout(self.path.packet_life_time);
        life + life
    }
}

/// What a peer calls a request: its address, its number, and whether it is a datagram service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestKey {
    pub peer: Gid,
    pub number: u32,
    pub datagram: bool,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    table: Table<Box<Connection>>,
    limit: usize,
    suffix: u32,
    suffix_bits: u32,
    /// Passive ones, by what their request was called.
    by_request: BTreeMap<RequestKey, CmId>,
    /// By the peer's queue pair, while that is bound to the connection.
    by_remote_qpn: BTreeMap<(Gid, Qpn), CmId>,
    /// By our queue pair, while the peer's readiness is awaited.
    by_local_qpn: BTreeMap<Qpn, CmId>,
    timers: BTreeSet<(Instant, CmId)>,
    /// Those that nobody owns and that only linger, the oldest first, with some that are gone.
    fading: VecDeque<CmId>,
}

impl Connections {
    /// None yet; the first is numbered from near `start`.
    ///
    /// # Panics
    /// If the suffix of `config` has more than 16 bits, or more than it says.
    pub fn new(config: &CmConfig, start: u32) -> Self {
        let suffix_bits = u32::from(config.id_suffix_bits);
        assert!(suffix_bits <= 16 && config.id_suffix >> suffix_bits == 0, "unfit suffix of numbers");
        // Not 0, which stands for a number that is not known.
        let numbers = 1..=u32::MAX >> suffix_bits;
        let limit = config.max_ids.min(numbers.end() / 4);
        Self {
            table: Table::new(limit, numbers, start),
            limit: limit as usize,
            suffix: config.id_suffix,
            suffix_bits,
            by_request: BTreeMap::new(),
            by_remote_qpn: BTreeMap::new(),
            by_local_qpn: BTreeMap::new(),
            timers: BTreeSet::new(),
            fading: VecDeque::new(),
        }
    }

    /// How many there are, lingering ones included.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Adds a connection. If there is no room, the oldest of those that only linger goes.
    pub fn insert(&mut self, connection: Connection) -> Option<CmId> {
        let connection = Box::new(connection);
        if self.table.len() >= self.limit {
            self.forget_one();
        }
        let number = self.table.insert(connection).ok()?;
        Some(CmId(number << self.suffix_bits | self.suffix))
    }

    pub fn get(&self, id: CmId) -> Option<&Connection> {
        self.table.get(self.number(id)?).map(Box::as_ref)
    }

    pub fn get_mut(&mut self, id: CmId) -> Option<&mut Connection> {
        self.table.get_mut(self.number(id)?).map(Box::as_mut)
    }

    /// Removes a connection from everywhere.
    pub fn remove(&mut self, id: CmId) {
        self.set_deadline(id, None);
        self.release_queue_pairs(id);
        let key = self.get(id).and_then(|connection| self.key_of(id, connection));
        if let Some(key) = key {
            self.by_request.remove(&key);
        }
        if let Some(number) = self.number(id) {
            let removed = self.table.remove(number);
            debug_assert!(removed.is_ok(), "nothing uses a connection");
        }
    }

    /// Makes a passive connection known by its request.
    pub fn index_request(&mut self, key: RequestKey, id: CmId) {
        self.by_request.insert(key, id);
    }

    /// The connection that came of a request.
    pub fn by_request(&self, key: RequestKey) -> Option<CmId> {
        self.by_request.get(&key).copied()
    }

    /// Frees the name of a request for another one.
    pub fn forget_request(&mut self, key: RequestKey) {
        self.by_request.remove(&key);
    }

    /// Makes a connection known by the peer's queue pair; returns another one that was.
    pub fn bind_remote_qpn(&mut self, id: CmId) -> Option<CmId> {
        let connection = self.get(id)?;
        // 0 is no queue pair that could be used twice: the program keeps its number to itself.
        let (peer, qpn) = (connection.path.destination, connection.remote.qpn);
        let bound = (qpn != Qpn::default()).then(|| self.by_remote_qpn.insert((peer, qpn), id)).flatten();
        bound.filter(|&other| other != id)
    }

    /// Makes a connection known by our queue pair.
    pub fn bind_local_qpn(&mut self, id: CmId) {
        if let Some(connection) = self.get(id) {
            self.by_local_qpn.insert(connection.local.qpn, id);
        }
    }

    /// The connection that waits for the peer of this queue pair of ours.
    pub fn by_local_qpn(&self, qpn: Qpn) -> Option<CmId> {
        self.by_local_qpn.get(&qpn).copied()
    }

    /// A connection is over: its queue pairs are free for others.
    pub fn release_queue_pairs(&mut self, id: CmId) {
        let Some(connection) = self.get(id) else { return };
        let remote = (connection.path.destination, connection.remote.qpn);
        let local = connection.local.qpn;
        if self.by_remote_qpn.get(&remote) == Some(&id) {
            self.by_remote_qpn.remove(&remote);
        }
        if self.by_local_qpn.get(&local) == Some(&id) {
            self.by_local_qpn.remove(&local);
        }
    }

    /// Sets or clears the time at which something has to happen to a connection.
    pub fn set_deadline(&mut self, id: CmId, deadline: Option<Instant>) {
        let Some(connection) = self.get_mut(id) else { return };
        let old = core::mem::replace(&mut connection.deadline, deadline);
        if let Some(old) = old {
            self.timers.remove(&(old, id));
        }
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, id));
        }
    }

    /// The first of these times.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(deadline, _)| deadline)
    }

    /// Takes the connection whose time has come.
    pub fn pop_due(&mut self, now: Instant) -> Option<CmId> {
        let &(deadline, id) = self.timers.first()?;
        if deadline > now {
            return None;
        }
        self.set_deadline(id, None);
        Some(id)
    }

    /// Nobody owns this connection and it only lingers: it may go when room is needed.
    pub fn fade(&mut self, id: CmId) {
        // What is gone already is swept out before the queue is longer than the table could be.
        if self.fading.len() > 2 * self.table.len() {
            let table = &self.table;
            let bits = self.suffix_bits;
            self.fading.retain(|id| table.contains(id.0 >> bits));
        }
        self.fading.push_back(id);
    }

    fn forget_one(&mut self) {
        while let Some(id) = self.fading.pop_front() {
            if self.get(id).is_some() {
                return self.remove(id);
            }
        }
    }

    /// What a passive connection's request was called, if it is still known by that.
    fn key_of(&self, id: CmId, connection: &Connection) -> Option<RequestKey> {
        let peer = connection.path.destination;
        [false, true]
            .map(|datagram| RequestKey { peer, number: connection.remote_id, datagram })
            .into_iter()
            .find(|key| self.by_request.get(key) == Some(&id))
    }

    fn number(&self, id: CmId) -> Option<u32> {
        let number = id.0 >> self.suffix_bits;
        (id.0 == number << self.suffix_bits | self.suffix).then_some(number)
    }
}
