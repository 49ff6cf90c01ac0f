//! The adapter as threads share it: every verb, under one lock, with the wire served in passing.
//!
//! A program's own thread does the work. What is posted leaves before the call returns, and polling a
//! completion queue that is empty receives what has arrived. The [`worker`](crate::worker) takes over
//! while no thread calls in.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nic::verbs::*;
use nic::{Counters, Instant};
use wire::{Gid, Qpn};

use crate::channel::Channel;
use crate::cm::ConnectionManager;
use crate::engine::Engine;
use crate::link::LinkCounters;
use crate::shared::Shared;

/// What a completion channel tells: which queue, and the owner's word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqNotification {
    /// The queue.
    pub cq: Cq,
    /// What it was created with.
    pub cookie: u64,
}

/// A completion channel: one descriptor for the events of any number of completion queues.
pub type CompletionChannel = Channel<CqNotification>;

/// An open adapter. Clones are the same adapter; it closes with the last of them.
#[derive(Clone, Debug)]
pub struct Adapter {
    shared: Arc<Open>,
}

/// An adapter in use: it stops when this is dropped.
#[derive(Debug)]
struct Open(Arc<Shared>);

impl Deref for Open {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Adapter {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared.0
    }

    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared: Arc::new(Open(shared)) }
    }

    /// Whether the adapter is another process's since a fork: this one is cut off from the wire.
    pub fn is_lost(&self) -> bool {
        self.shared.is_lost()
    }

    /// The asynchronous events, to be slept on and taken.
    pub fn async_events(&self) -> &Channel<AsyncEvent> {
        &self.shared.async_events
    }

    /// Connection management on this adapter: the same for all who ask.
    pub fn connection_manager(&self) -> std::io::Result<ConnectionManager> {
        ConnectionManager::of(self)
    }

    /// Counters so far.
    pub fn counters(&self) -> Counters {
        self.look(|engine| engine.nic.counters())
    }

    /// What the link below dropped or could not send.
    pub fn link_counters(&self) -> LinkCounters {
        self.look(|engine| engine.link().counters())
    }

    /// The adapter's limits.
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// An entry of the GID table.
    pub fn gid(&self, index: u8) -> Option<GidEntry> {
        self.look(|engine| engine.nic.gid(index))
    }

    /// The port's state, and the largest path MTU with which every peer can be reached. A connection may
    /// ask for more, and gets what the route to its peer carries.
    pub fn port(&self) -> (PortState, Mtu) {
        self.look(|engine| (engine.nic.port().0, engine.link().active_mtu()))
    }

    /// Nanoseconds of the adapter's clock, which completions are stamped with.
    pub fn clock(&self) -> u64 {
        self.shared.now().as_picos() / 1000
    }

    // ---- protection domains, memory

    /// Makes a protection domain.
    pub fn alloc_pd(&self) -> Result<Pd, CreateError> {
        self.look(|engine| engine.nic.alloc_pd())
    }

    /// Unmakes it.
    pub fn dealloc_pd(&self, pd: Pd) -> Result<(), DestroyError> {
        self.look(|engine| engine.nic.dealloc_pd(pd))
    }

    /// Registers `length` bytes at `address`, which requests name by addresses from `iova` on. Costs the
    /// same for any length: nothing is pinned or copied.
    ///
    /// # Safety
    ///
    /// Until it is deregistered the memory stays mapped, readable, and writable if `access` has a right
    /// to write; and nobody relies on its contents staying put while a peer or a request may write it.
    pub unsafe fn reg_mr(
        &self,
        pd: Pd,
        address: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<MrInfo, RegisterError> {
        self.look(|engine| engine.nic.reg_mr(pd, address, length, iova, access))
    }

    /// Changes a region in place; its keys may change.
    ///
    /// # Safety
    ///
    /// As for [`Adapter::reg_mr`], for the region as it is afterwards.
    pub unsafe fn rereg_mr(&self, mr: Mr, change: MrChange) -> Result<MrInfo, RegisterError> {
        self.look(|engine| engine.nic.rereg_mr(mr, change))
    }

    /// Ends a region. Nothing accesses its memory any more when this returns.
    pub fn dereg_mr(&self, mr: Mr) -> Result<(), DestroyError> {
        self.look(|engine| engine.nic.dereg_mr(mr))
    }

    /// Makes a window; returns it and its first remote key.
    pub fn alloc_mw(&self, pd: Pd, mw_type: MwType) -> Result<(Mw, u32), CreateError> {
        self.look(|engine| engine.nic.alloc_mw(pd, mw_type))
    }

    /// Unmakes it, unbinding it first.
    pub fn dealloc_mw(&self, mw: Mw) -> Result<(), DestroyError> {
        self.look(|engine| engine.nic.dealloc_mw(mw))
    }

    // ---- completion queues

    /// Makes a completion queue of at least `capacity` entries, whose events go to a channel under a
    /// cookie of the caller's; returns it and its real size.
    pub fn create_cq(
        &self,
        capacity: u32,
        channel: Option<(Arc<CompletionChannel>, u64)>,
    ) -> Result<(Cq, u32), CreateError> {
        self.look(|engine| engine.create_cq(capacity, channel))
    }

    /// Changes its size; returns the real one.
    pub fn resize_cq(&self, cq: Cq, capacity: u32) -> Result<u32, CqError> {
        self.look(|engine| engine.nic.resize_cq(cq, capacity))
    }

    /// Unmakes it, and withdraws what its channel still holds of it.
    pub fn destroy_cq(&self, cq: Cq) -> Result<(), DestroyError> {
        self.look(|engine| engine.destroy_cq(cq))?;
        self.shared.async_events.withdraw(|event| *event == AsyncEvent::CqError(cq));
        Ok(())
    }

    /// Hands at most `max` completions, oldest first, to `take`; returns how many. If the queue is empty,
    /// serves the wire once and looks again.
    pub fn poll_cq(&self, cq: Cq, max: usize, mut take: impl FnMut(&Completion)) -> Result<usize, CqError> {
        let mut engine = self.shared.enter();
        let mut taken = engine.take_completions(cq, max, &mut take)?;
        let now = self.shared.now();
        self.shared.last_poll.store(now.as_picos(), Ordering::Relaxed);
        if taken == 0 && max > 0 {
            // The caller is about to act on what it finds, in the queue or in its memory: the answers wait
            // for that, or for the next poll.
            let waits = engine.pace.due().is_some();
            if engine.receive(now) && !waits {
                engine.pace.defer(now);
                engine.dispatch_events();
            } else {
                engine.finish_progress(now);
            }
            taken = engine.take_completions(cq, max, &mut take)?;
        }
        Ok(taken)
    }

    /// Asks for one event at the next completion, or at the next solicited or failed one.
    pub fn req_notify_cq(&self, cq: Cq, solicited_only: bool) -> Result<(), CqError> {
        self.serve(|engine, _| engine.nic.req_notify_cq(cq, solicited_only))
    }

    // ---- shared receive queues

    /// Makes a shared receive queue; returns it and its real attributes.
    pub fn create_srq(&self, pd: Pd, attributes: SrqAttributes) -> Result<(Srq, SrqAttributes), CreateError> {
        self.look(|engine| engine.nic.create_srq(pd, attributes))
    }

    /// Changes it; returns its real attributes.
    pub fn modify_srq(&self, srq: Srq, change: SrqChange) -> Result<SrqAttributes, ModifySrqError> {
        self.serve(|engine, _| engine.nic.modify_srq(srq, change))
    }

    /// Its attributes.
    pub fn query_srq(&self, srq: Srq) -> Option<SrqAttributes> {
        self.look(|engine| engine.nic.query_srq(srq))
    }

    /// Unmakes it, and withdraws the events about it.
    pub fn destroy_srq(&self, srq: Srq) -> Result<(), DestroyError> {
        self.look(|engine| engine.nic.destroy_srq(srq))?;
        self.shared.async_events.withdraw(
            |event| matches!(*event, AsyncEvent::SrqError(s) | AsyncEvent::SrqLimitReached(s) if s == srq),
        );
        Ok(())
    }

    // ---- address handles, multicast

    /// Makes an address handle.
    pub fn create_ah(&self, pd: Pd, path: AddressVector) -> Result<Ah, CreateError> {
        self.look(|engine| engine.nic.create_ah(pd, path))
    }

    /// Unmakes it.
    pub fn destroy_ah(&self, ah: Ah) -> Result<(), DestroyError> {
        self.look(|engine| engine.nic.destroy_ah(ah))
    }

    /// Delivers a multicast group's datagrams to a queue pair.
    pub fn attach_mcast(&self, qpn: Qpn, group: Gid) -> Result<(), MulticastError> {
        self.look(|engine| engine.attach_mcast(qpn, group))
    }

    /// Ends that.
    pub fn detach_mcast(&self, qpn: Qpn, group: Gid) -> Result<(), MulticastError> {
        self.look(|engine| engine.detach_mcast(qpn, group))
    }

    // ---- queue pairs

    /// Makes a queue pair in RESET; returns its number and the sizes granted.
    pub fn create_qp(&self, init: &QpInit) -> Result<(Qpn, QpCapabilities), CreateError> {
        self.look(|engine| engine.nic.create_qp(init))
    }

    /// Changes its attributes or moves it to another state, or changes nothing at all.
    ///
    /// The path MTU is lowered to what the route to the peer carries: verbs know one MTU of a port, but
    /// this port has all the interfaces of the machine behind it.
    pub fn modify_qp(&self, qpn: Qpn, change: &QpChange) -> Result<(), ModifyQpError> {
        self.serve(|engine, now| engine.modify_qp(now, qpn, change))
    }

    /// All its attributes.
    pub fn query_qp(&self, qpn: Qpn) -> Option<QpAttributes> {
        self.look(|engine| engine.nic.query_qp(qpn))
    }

    /// Unmakes it; its completions and events go with it.
    pub fn destroy_qp(&self, qpn: Qpn) -> Result<(), DestroyError> {
        self.look(|engine| engine.nic.destroy_qp(qpn))?;
        self.shared.async_events.withdraw(|event| event_qpn(event) == Some(qpn));
        Ok(())
    }

    /// Posts any number of requests under one lock; what they give rise to is sent at the end.
    pub fn post<R>(&self, requests: impl FnOnce(&mut Poster<'_>) -> R) -> R {
        let mut engine = self.shared.enter();
        let now = self.shared.now();
        let mut poster = Poster { engine: &mut engine, now, sends: 0 };
        let result = requests(&mut poster);
        let sends = poster.sends;
        // A receive gives rise to nothing: who found none before comes again by himself.
        if sends > 0 && engine.pace.on_post(now, sends) {
            engine.transmit(now);
        }
        engine.dispatch_events();
        let deadline = engine.next_deadline();
        drop(engine);
        self.shared.worker_needed_by(deadline);
        result
    }

    /// Serves the wire once: receives, sends, and does what is due.
    pub fn progress(&self) {
        self.serve(|engine, now| {
            self.shared.last_poll.store(now.as_picos(), Ordering::Relaxed);
            engine.progress(now)
        });
    }

    /// Calls `access` while no registered memory is read or written by the adapter.
    pub(crate) fn exclusively<R>(&self, access: impl FnOnce() -> R) -> R {
        let _engine = self.shared.lock();
        access()
    }

    /// Calls a verb that neither sends nor receives.
    fn look<R>(&self, verb: impl FnOnce(&mut Engine) -> R) -> R {
        let mut engine = self.shared.enter();
        engine.send_deferred(|| self.shared.now());
        let result = verb(&mut engine);
        engine.dispatch_events();
        result
    }

    /// Calls a verb that may give rise to packets, and sends them.
    pub(crate) fn serve<R>(&self, verb: impl FnOnce(&mut Engine, Instant) -> R) -> R {
        let mut engine = self.shared.enter();
        let now = self.shared.now();
        engine.send_deferred(|| now);
        let result = verb(&mut engine, now);
        engine.transmit(now);
        engine.dispatch_events();
        let deadline = engine.next_deadline();
        drop(engine);
        self.shared.worker_needed_by(deadline);
        result
    }
}

/// Posts requests while the adapter is locked; see [`Adapter::post`].
pub struct Poster<'a> {
    engine: &'a mut Engine,
    now: Instant,
    sends: u32,
}

impl Poster<'_> {
    /// Posts a send request.
    pub fn send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.sends += 1;
        self.engine.nic.post_send(self.now, qpn, request)
    }

    /// How many more send requests a queue pair takes.
    pub fn send_room(&self, qpn: Qpn) -> Option<usize> {
        self.engine.nic.send_room(qpn)
    }

    /// Posts a receive request.
    pub fn recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.engine.nic.post_recv(self.now, qpn, request)
    }

    /// Posts a receive request to a shared receive queue.
    pub fn srq_recv(&mut self, srq: Srq, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.engine.nic.post_srq_recv(srq, request)
    }
}

fn event_qpn(event: &AsyncEvent) -> Option<Qpn> {
    match *event {
        AsyncEvent::QpFatal(qpn)
        | AsyncEvent::QpRequestError(qpn)
        | AsyncEvent::QpAccessError(qpn)
        | AsyncEvent::CommunicationEstablished(qpn)
        | AsyncEvent::SqDrained(qpn)
        | AsyncEvent::LastWqeReached(qpn) => Some(qpn),
        _ => None,
    }
}
