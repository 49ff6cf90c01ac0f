//! The state machine as a part of the engine, with whom to tell.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::io::channel::{Channel, Received};
use nic::cm::{Cm, CmEvent, CmId, CmTransmit, ListenerId};
use nic::{Instant, Transmit};
use wire::{Psn, Qpn};

use super::Reporter;
use crate::gids::Gids;
use crate::slot::{Forwarded, MAX_FORWARDED};

/// Where the datagrams for this program arrive.
#[derive(Debug)]
pub(crate) struct MadChannel {
    channel: Channel,
    is_closed: AtomicBool,
}

impl MadChannel {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { channel, is_closed: AtomicBool::new(false) }
    }

    /// Whether the service is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Takes one message, and hands over the datagrams in it. False if there was none.
    fn receive(&self, buffer: &mut [u8], take: impl FnMut(Forwarded)) -> bool {
        match self.channel.receive(buffer) {
            Ok(Received::Message(length, _)) => {
                Forwarded::parse_bundle(&buffer[..length]).for_each(take);
                true
            }
            Ok(Received::Nothing) => false,
            Ok(Received::Closed) | Err(_) => {
                self.is_closed.store(true, Ordering::Relaxed);
                false
            }
        }
    }
}

impl AsFd for MadChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Connection management of an adapter.
#[derive(Debug)]
pub(crate) struct CmSide {
    pub(super) cm: Cm,
    mads: Arc<MadChannel>,
    connections: BTreeMap<CmId, Reporter>,
    listeners: BTreeMap<ListenerId, Reporter>,
    psn: Psn,
    /// What a message is received into.
    buffer: Box<[u8]>,
}

impl CmSide {
    pub(super) fn new(cm: Cm, mads: Arc<MadChannel>) -> Self {
        Self {
            cm,
            mads,
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            psn: Psn::ZERO,
            buffer: vec![0; MAX_FORWARDED].into(),
        }
    }

    /// How many connections the program has a name for.
    pub(super) fn owned(&self) -> usize {
        self.connections.len()
    }

    /// Whether answers can arrive: not if the service is gone.
    pub(super) fn is_reachable(&self) -> bool {
        !self.mads.is_closed()
    }

    /// Takes one message of what the service has passed on. True if there was anything.
    pub(crate) fn receive(&mut self, now: Instant, gids: &Gids) -> bool {
        let Self { cm, mads, buffer, .. } = self;
        let take = |Forwarded { arrival, interface, mad }: Forwarded| {
            // An address that came and went again meanwhile: the peer asks again, or gives up.
            if let Some(index) = gids.index_of(arrival.destination, interface) {
                cm.handle_mad(now, &arrival, index, &mad);
            }
        };
        mads.receive(buffer, take)
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.cm.poll_timeout().is_some_and(|due| due <= now) {
            self.cm.handle_timeout(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.cm.poll_timeout()
    }

    /// The next datagram to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit: CmTransmit = self.cm.poll_transmit()?;
        let psn = self.psn;
        self.psn += 1;
        Some(transmit.into_transmit(psn))
    }

    /// A packet arrived on a queue pair that was not established.
    pub(crate) fn notify_traffic(&mut self, now: Instant, qpn: Qpn) {
        self.cm.notify_traffic(now, qpn);
    }

    /// Tells what there is to tell.
    pub(crate) fn dispatch_events(&mut self) {
        while let Some(event) = self.cm.poll_event() {
            let id = event.id();
            let reporter = match &event {
                CmEvent::Request(request) => self.adopt(id, request.listener),
                CmEvent::SidrRequest(request) => self.adopt(id, request.listener),
                _ => self.connections.get(&id).cloned(),
            };
            if let Some(Reporter { sink, token }) = reporter {
                sink.deliver(token, event);
            }
        }
    }

    /// News of what was asked of a listener goes to the listener's reporter for the time being.
    fn adopt(&mut self, id: CmId, listener: ListenerId) -> Option<Reporter> {
        let reporter = self.listeners.get(&listener)?.clone();
        self.connections.insert(id, reporter.clone());
        Some(reporter)
    }

    pub(super) fn report_connection(&mut self, id: CmId, reporter: Reporter) {
        self.connections.insert(id, reporter);
    }

    pub(super) fn report_listener(&mut self, id: ListenerId, reporter: Reporter) {
        self.listeners.insert(id, reporter);
    }

    pub(super) fn knows(&self, id: CmId) -> bool {
        self.connections.contains_key(&id)
    }

    pub(super) fn forget_connection(&mut self, id: CmId) {
        self.connections.remove(&id);
    }

    pub(super) fn forget_listener(&mut self, id: ListenerId) {
        self.listeners.remove(&id);
    }
}
