//! Connection management: how queue pairs of two programs find each other (IBTA vol. 1, chapter 12;
//! IP addressing: annex A11).
//!
//! A [`Cm`] is one program's share of its host's connection management: its listeners, its connections
//! in all their [`State`]s, and its questions for datagram services. Like the adapter it owns no clock
//! and no socket: verbs and datagrams come in as calls that carry the time; datagrams, events and
//! deadlines are polled out. It touches no queue pair: events say what the peer brings, and
//! [`Cm::qp_change`] what to modify.
//!
//! ```text
//!  verbs: listen, connect, accept,            CmEvent: Request, Reply, Established,
//!  establish, reject, disconnect, destroy     Rejected, Disconnected, ...
//!          │                                        ▲
//!          ▼                                        │
//!  ┌───────────────────────── Cm ───────────────────────────┐
//!  │ verbs ──► state (the table) ◄── passive, active, ending, datagram
//!  │             │        connections (numbers, indexes, timers), listeners
//!  └─────────────┼──────────────────────────▲───────────────┘
//!                ▼                          │
//!        CmTransmit to QP 1          handle_mad from QP 1
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `params`, `event`, `error`, `config` | the vocabulary |
//! | `state` | every change of state, as a table |
//! | `connections`, `listeners` | what there is, and how it is found |
//! | `verbs` | what the program asks for |
//! | `receive` | where a datagram belongs; then `passive` (REQ, RTU), `active` (REP), `ending` (REJ, MRA, DREQ, DREP), `datagram` (SIDR) |
//! | `timer` | retries, giving up, and the end of lingering |
//! | `stateless` | answers about what is not there |
//! | `attributes` | what to modify queue pairs to |
//! | [`Switchboard`] | one QP 1 for many programs, with `ports` and what it remembers for a while (`recent`) |
//! | [`CmTransmit`] in `transmit` | what goes to QP 1 of a peer, and how it looks as a packet |
//!
//! **Names.** A connection's [`CmId`] is its number on the wire. It belongs to the program from the call
//! or event that made it until [`Cm::destroy`]: then no further event speaks of it. Destroying is
//! allowed at any time and tells the peer what it should know.
//!
//! **Many programs, one QP 1.** Numbers end in a suffix ([`CmConfig::id_suffix`]), and
//! [`CmRoute`](wire::cm::CmRoute) says whom a datagram is for: first messages by service, all others by
//! number. A [`Switchboard`] does that for a host.
//!
//! **Loss and duplicates.** What expects an answer is sent again until it comes. What arrives twice is
//! answered again, in the state in which its answer may have been lost; otherwise it changes nothing.
//! A connection that is over lingers for a while for that.
//!
//! **Peers that forget.** A peer whose queue pair asks for (or agrees to) a new connection has lost the
//! old one, which is then over: nobody who reconnects quickly is refused as stale, as IBTA 12.9.8.3
//! would have it.
//!
//! **Floods.** Everything a datagram can make us remember is bounded: unanswered requests per listener,
//! connections in all, and answers that wait to be sent.

mod active;
mod attributes;
mod config;
mod connections;
mod datagram;
mod ending;
mod error;
mod event;
mod listeners;
mod params;
mod passive;
mod ports;
mod receive;
mod recent;
mod state;
mod stateless;
mod switchboard;
mod timer;
mod transmit;
mod verbs;

pub use attributes::{connection_init, datagram_change};
pub use config::{CmConfig, CmCounters, cm_timeout};
pub use error::CmError;
pub use event::{CmEvent, ConnectReply, ConnectRequest, SidrReply, SidrRequest};
pub use listeners::{Listen, ListenAddress};
pub use params::{CmId, Ece, Endpoint, ListenerId, Path, Patience, RepParams, ReqParams, SidrParams};
pub use ports::{Bind, BindError};
pub use state::State;
pub use switchboard::Switchboard;
pub use transmit::{CmTransmit, is_cm_datagram};

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use wire::cm::{CmMad, CmMessage};

use crate::random::Random;
use crate::time::Instant;
use crate::verbs::Mtu;
use connections::Connections;
use listeners::Listeners;
use state::Input;

/// One program's connection management.
///
/// The order of calls: after any call that may have changed something, call [`Cm::poll_transmit`] and
/// [`Cm::poll_event`] until they return `None`, and come back no later than [`Cm::poll_timeout`] says.
#[derive(Debug)]
pub struct Cm {
    config: CmConfig,
    counters: CmCounters,
    random: Random,
    /// The upper half of our transaction IDs.
    transaction_prefix: u64,
    listeners: Listeners,
    connections: Connections,
    transmits: VecDeque<CmTransmit>,
    events: VecDeque<CmEvent>,
}

impl Cm {
    /// Nothing connected yet.
    ///
    /// # Panics
    /// If the suffix of `config` has more than 16 bits, or more than it says.
    pub fn new(config: CmConfig) -> Self {
        let mut random = Random::new(config.seed);
        Self {
            config,
            counters: CmCounters::default(),
            transaction_prefix: random.next() << 32,
            listeners: Listeners::new(config.max_listeners),
            connections: Connections::new(&config, random.next() as u32),
            random,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Counters so far.
    pub fn counters(&self) -> CmCounters {
        self.counters
    }

    /// Our port carries another MTU.
    pub fn set_mtu(&mut self, mtu: Mtu) {
        self.config.mtu = mtu;
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<CmTransmit> {
        self.transmits.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<CmEvent> {
        // What was destroyed in the meantime is nobody's business any more.
        core::iter::from_fn(|| self.events.pop_front()).find(|event| is_owned(&self.connections, event.id()))
    }

    /// When [`Cm::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.connections.next_deadline()
    }

    /// Where a connection stands.
    pub fn state(&self, id: CmId) -> Option<State> {
        self.connections.get(id).map(|connection| connection.state)
    }

    /// How many connections and resolutions there are, lingering ones included.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// What a listener listens for.
    pub fn listener(&self, id: ListenerId) -> Option<Listen> {
        self.listeners.get(id)
    }

    /// How many listeners there are.
    pub fn listeners(&self) -> usize {
        self.listeners.len()
    }

    // ---- what all parts use

    /// Moves a connection by `input`, with all that follows from its new state. False if it stands
    /// where that means nothing.
    fn advance(&mut self, now: Instant, id: CmId, input: Input) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let from = connection.state;
        let Some(to) = from.after(input) else { return false };
        connection.state = to;
        connection.was_established |= to == State::Established;
        if to.is_over() || to == State::Established {
            connection.last = None;
        }
        if to.is_over() {
            self.connections.release_queue_pairs(id);
        }
        match to {
            State::Timewait => self.linger(now, id),
            State::Closed => self.close(id),
            _ => self.connections.set_deadline(id, None),
        }
        true
    }

    fn linger(&mut self, now: Instant, id: CmId) {
        self.connections.set_deadline(id, Some(now + self.config.linger));
        if !is_owned(&self.connections, id) {
            self.connections.fade(id);
        }
    }

    fn close(&mut self, id: CmId) {
        self.connections.set_deadline(id, None);
        if !is_owned(&self.connections, id) {
            self.connections.remove(id);
        }
    }

    /// Our program has dealt with a request: there is room for another one.
    fn settle(&mut self, id: CmId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Some(listener) = connection.backlog_of.take() {
            self.listeners.answered(listener);
        }
    }

    /// Tells the program, if it still has the connection's name.
    fn report(&mut self, event: CmEvent) {
        if is_owned(&self.connections, event.id()) {
            self.events.push_back(event);
        }
    }

    /// Sends a message of a connection, once.
    fn send(&mut self, id: CmId, mad: &CmMad) {
        if let Some(path) = self.connections.get(id).map(|connection| connection.path) {
            self.transmit(path, mad.emit());
        }
    }

    /// Sends a message of a connection, and remembers it for when what it answers comes again.
    fn send_remembered(&mut self, id: CmId, mad: &CmMad) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let bytes = mad.emit();
        connection.last = Some(Box::new(bytes));
        let path = connection.path;
        self.transmit(path, bytes);
    }

    /// Sends a message of a connection, again and again until it is answered.
    fn send_reliably(&mut self, now: Instant, id: CmId, mad: &CmMad) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.backoff = connection.new_backoff(&self.config);
        let deadline = connection.backoff.deadline(now, self.random.next() as u16);
        self.connections.set_deadline(id, Some(deadline));
        self.send_remembered(id, mad);
    }

    /// Sends what was remembered again; false if there is nothing.
    fn send_again(&mut self, id: CmId) -> bool {
        let Some(connection) = self.connections.get(id) else { return false };
        let Some(bytes) = &connection.last else { return false };
        let (path, bytes) = (connection.path, **bytes);
        self.transmit(path, bytes);
        true
    }

    fn transmit(&mut self, path: Path, mad: [u8; CmMad::LEN]) {
        // Verbs and timers are answered for by the number of connections; this bounds what peers can
        // make us answer between two polls.
        if self.transmits.len() >= self.transmit_limit() {
            self.counters.no_room += 1;
            return;
        }
        self.counters.sent += 1;
        self.transmits.push_back(CmTransmit { route: path.route(), mad });
    }

    fn transmit_limit(&self) -> usize {
        1024 + 2 * self.connections.len()
    }

    /// A message in the exchange that made a connection.
    fn in_exchange(&self, id: CmId, message: CmMessage) -> CmMad {
        let transaction_id = self.connections.get(id).map_or(0, |connection| connection.transaction_id);
        CmMad { transaction_id, attribute_modifier: 0, message }
    }

    /// The ID of an exchange that we begin: as the kernel forms it, from the connection's number.
    fn transaction_id(&self, id: CmId) -> u64 {
        self.transaction_prefix | u64::from(id.0)
    }
}

/// Whether there is such a connection and our program has its name.
fn is_owned(connections: &Connections, id: CmId) -> bool {
    connections.get(id).is_some_and(|connection| connection.is_owned)
}
