//! A `nic` with a link: what the lock protects.

use std::collections::BTreeMap;
use std::sync::Arc;

use nic::verbs::*;
use nic::{Duration, Instant, Nic};
use wire::{Gid, Qpn};

use crate::adapter::{CompletionChannel, CqNotification};
use crate::channel::Channel;
use crate::cm::CmSide;
use crate::link::{Link, Sent};
use crate::memory::HostMemory;
use crate::pace::Pace;

/// Most packets of one run: what one segmented datagram holds.
const MAX_RUN: usize = io::udp::MAX_SEGMENTS;

/// How often receiving is repeated before what was received is answered: bounds the delay of answers
/// under a flood.
const RECEIVE_ROUNDS: usize = 8;

/// When to try again if the kernel had no buffers, of which it gives no notice.
const NO_BUFFERS_PAUSE: Duration = Duration::from_micros(50);

/// One adapter on one link.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) nic: Nic<HostMemory>,
    link: Link,
    /// When to offer the link again what it did not take.
    retry_at: Option<Instant>,
    pub(crate) pace: Pace,
    /// Connection management, once somebody has asked for it.
    pub(crate) cm: Option<Box<CmSide>>,
    /// When the wire was last served.
    last_served: Instant,
    channels: BTreeMap<Cq, (Arc<CompletionChannel>, u64)>,
    async_events: Arc<Channel<AsyncEvent>>,
}

impl Engine {
    pub(crate) fn new(nic: Nic<HostMemory>, link: Link, async_events: Arc<Channel<AsyncEvent>>) -> Self {
        Self {
            nic,
            link,
            retry_at: None,
            pace: Pace::default(),
            cm: None,
            last_served: Instant::ZERO,
            channels: BTreeMap::new(),
            async_events,
        }
    }

    pub(crate) fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    // ---- serving the wire

    /// Receives what is there, does what is due, sends what comes of it. True if anything was received.
    pub(crate) fn progress(&mut self, now: Instant) -> bool {
        let mut received = false;
        for _ in 0..RECEIVE_ROUNDS {
            if !self.receive(now) {
                break;
            }
            received = true;
            self.transmit(now);
        }
        self.finish_progress(now);
        received
    }

    /// Does what is due, and sends all that waits.
    pub(crate) fn finish_progress(&mut self, now: Instant) {
        if self.nic.poll_timeout().is_some_and(|due| due <= now) {
            self.nic.handle_timeout(now);
        }
        if let Some(cm) = &mut self.cm {
            cm.handle_timeout(now);
        }
        self.transmit(now);
        self.dispatch_events();
    }

    /// Receives one batch of what is there. True if there was anything.
    pub(crate) fn receive(&mut self, now: Instant) -> bool {
        let nic = &mut self.nic;
        let datagrams = self
            .link
            .receive(now, |arrival, _, headers, payload| nic.handle_packet(now, arrival, headers, payload));
        if datagrams > 0 {
            self.pace.on_receive();
        }
        datagrams > 0
    }

    /// Takes the datagrams of connection management that have arrived, and sends what comes of them.
    pub(crate) fn receive_mads(&mut self, now: Instant) {
        let Self { cm: Some(cm), link, .. } = self else { return };
        if cm.receive(now, link.gids()) {
            self.finish_progress(now);
        }
    }

    /// Sends all that is ready, or as much as the link takes.
    pub(crate) fn transmit(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.retry_at = None;
        self.last_served = now;
        let mut sent = self.link.flush();
        // Between here and the last flush no lock is given up: the payload stays where the runs say.
        while sent == Sent::Done
            && let Some(run) = self.nic.poll_transmit(now, MAX_RUN)
        {
            sent = self.link.send(run);
        }
        while sent == Sent::Done
            && let Some(datagram) = self.cm.as_mut().and_then(|cm| cm.poll_transmit())
        {
            sent = self.link.send(datagram);
        }
        if self.link.flush() == Sent::Later {
            self.retry_at = Some(now + NO_BUFFERS_PAUSE);
        }
        self.pace.on_transmit(now);
    }

    /// Sends what waits for company, because the program turned to something else: perhaps it ends the
    /// queue pair that owes an answer.
    pub(crate) fn send_deferred(&mut self, now: impl FnOnce() -> Instant) {
        if self.pace.due().is_some() {
            self.transmit(now());
        }
    }

    /// When [`Engine::progress`] wants to be called, if nothing arrives.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let cm = self.cm.as_ref().and_then(|cm| cm.poll_timeout());
        let all = [self.nic.poll_timeout(), cm, self.retry_at, self.link.deadline(), self.pace.due()];
        all.into_iter().flatten().min()
    }

    /// Forgets the events so far: nobody has asked for any yet.
    pub(crate) fn forget_events(&mut self) {
        while self.nic.poll_event().is_some() {}
    }

    /// Hands events to the channels they belong to.
    pub(crate) fn dispatch_events(&mut self) {
        while let Some(event) = self.nic.poll_event() {
            match event {
                Event::Completion(cq) => {
                    if let Some((channel, cookie)) = self.channels.get(&cq) {
                        channel.push(CqNotification { cq, cookie: *cookie });
                    }
                }
                Event::Async(event) => {
                    // The peer is ready to send, though it has not said so yet.
                    if let (AsyncEvent::CommunicationEstablished(qpn), Some(cm)) = (event, &mut self.cm) {
                        cm.notify_traffic(self.last_served, qpn);
                    }
                    self.async_events.push(event);
                }
            }
        }
        if let Some(cm) = &mut self.cm {
            cm.dispatch_events();
        }
    }

    // ---- verbs that need more than the nic

    /// Makes the GID table that of the machine's addresses as they are now. Without any the port is down.
    pub(crate) fn refresh_gids(&mut self) {
        // If they cannot be read now, the next change will be noticed too.
        for (index, entry) in self.link.refresh_gids().unwrap_or_default() {
            self.nic.set_gid(index, entry);
        }
        let state = if self.link.has_addresses() { PortState::Active } else { PortState::Down };
        self.nic.set_port(state, Mtu::Mtu4096);
    }

    pub(crate) fn create_cq(
        &mut self,
        capacity: u32,
        channel: Option<(Arc<CompletionChannel>, u64)>,
    ) -> Result<(Cq, u32), CreateError> {
        let (cq, real) = self.nic.create_cq(capacity)?;
        if let Some(channel) = channel {
            self.channels.insert(cq, channel);
        }
        Ok((cq, real))
    }

    pub(crate) fn destroy_cq(&mut self, cq: Cq) -> Result<(), DestroyError> {
        self.nic.destroy_cq(cq)?;
        if let Some((channel, _)) = self.channels.remove(&cq) {
            channel.withdraw(|notification| notification.cq == cq);
        }
        Ok(())
    }

    pub(crate) fn take_completions(
        &mut self,
        cq: Cq,
        max: usize,
        take: &mut impl FnMut(&Completion),
    ) -> Result<usize, CqError> {
        for taken in 0..max {
            match self.nic.poll_cq(cq)? {
                Some(completion) => take(&completion),
                None => return Ok(taken),
            }
        }
        Ok(max)
    }

    pub(crate) fn modify_qp(
        &mut self,
        now: Instant,
        qpn: Qpn,
        change: &QpChange,
    ) -> Result<(), ModifyQpError> {
        let mut change = *change;
        if let (Some(mtu), Some(path)) = (change.path_mtu, change.path) {
            change.path_mtu = Some(mtu.min(self.link.path_mtu(&path)));
        }
        self.nic.modify_qp(now, qpn, &change)
    }

    pub(crate) fn attach_mcast(&mut self, qpn: Qpn, group: Gid) -> Result<(), MulticastError> {
        if self.nic.attach_mcast(qpn, group)? {
            self.link.join(group);
        }
        Ok(())
    }

    pub(crate) fn detach_mcast(&mut self, qpn: Qpn, group: Gid) -> Result<(), MulticastError> {
        if self.nic.detach_mcast(qpn, group)? {
            self.link.leave(group);
        }
        Ok(())
    }
}
