//! What the threads of a process share of an open adapter.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use io::udp::UdpSocket;
use nic::Instant;
use nic::verbs::{AsyncEvent, Limits};

use crate::channel::Channel;
use crate::cm::MadChannel;
use crate::engine::Engine;
use crate::fork::{self, Ownership};
use crate::worker::Alarm;

/// An open adapter, as its threads and its [`worker`](crate::worker) share it.
#[derive(Debug)]
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    /// The link's socket, to sleep on without the lock.
    pub(crate) socket: Arc<UdpSocket>,
    /// Where datagrams of connection management arrive, once somebody has asked for them.
    mads: OnceLock<Arc<MadChannel>>,
    pub(crate) async_events: Arc<Channel<AsyncEvent>>,
    pub(crate) limits: Limits,
    /// The clock's zero, in nanoseconds of the monotonic clock.
    epoch: u64,
    /// When a thread last polled an empty completion queue, in picoseconds since the epoch.
    pub(crate) last_poll: AtomicU64,
    pub(crate) alarm: Alarm,
    pub(crate) ownership: Ownership,
    closed: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        engine: Engine,
        socket: Arc<UdpSocket>,
        async_events: Arc<Channel<AsyncEvent>>,
        limits: Limits,
        ownership: Ownership,
    ) -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(Self {
            engine: Mutex::new(engine),
            socket,
            mads: OnceLock::new(),
            async_events,
            limits,
            epoch: io::clock::now_ns(),
            last_poll: AtomicU64::new(0),
            alarm: Alarm::new()?,
            ownership,
            closed: AtomicBool::new(false),
        });
        fork::register(&shared);
        Ok(shared)
    }

    /// The time since the adapter was opened.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(io::clock::now_ns().wrapping_sub(self.epoch))
    }

    /// Locks the engine for a verb. After a fork this claims the adapter for the process that calls
    /// first; the other one finds it cut off from the wire.
    pub(crate) fn enter(self: &Arc<Self>) -> MutexGuard<'_, Engine> {
        let mut engine = self.lock();
        match self.ownership.claim() {
            None => {}
            Some(fork::Claim::Ours) => crate::worker::start(self),
            Some(fork::Claim::Lost) => engine.link().cut(),
        }
        engine
    }

    /// Whether the adapter is another process's since a fork.
    pub(crate) fn is_lost(&self) -> bool {
        let _engine = self.lock();
        self.ownership.is_lost()
    }

    /// Locks the engine without claiming it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Engine> {
        // A panic under the lock is a bug of ours that has aborted or unwound one thread; the others
        // had better go on.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the engine if nobody has.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Engine>> {
        self.engine.try_lock().ok()
    }

    /// Sees to it that the worker looks in no later than `deadline`.
    pub(crate) fn worker_needed_by(&self, deadline: Option<Instant>) {
        if let Some(deadline) = deadline {
            self.alarm.bring_forward(deadline);
        }
    }

    /// Where datagrams of connection management arrive, while the service is there.
    pub(crate) fn mads(&self) -> Option<&MadChannel> {
        self.mads.get().map(Arc::as_ref).filter(|mads| !mads.is_closed())
    }

    /// Has the worker wait for datagrams of connection management too; returns the channel that was first
    /// given. To be called under the engine's lock, which a fork holds.
    pub(crate) fn wait_for_mads(&self, mads: MadChannel) -> Arc<MadChannel> {
        let mads = Arc::clone(self.mads.get_or_init(|| Arc::new(mads)));
        self.alarm.ring();
        mads
    }

    /// Ends the worker and the traffic. When this returns no registered memory is accessed any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut engine = self.lock();
        engine.send_deferred(|| self.now());
        engine.link().cut();
        drop(engine);
        self.alarm.ring();
    }

    /// Sends what waits for company, before the process exits; not if a thread is at work in the adapter.
    pub(crate) fn send_deferred(&self) {
        if let Some(mut engine) = self.try_lock()
            && !self.ownership.is_lost()
        {
            engine.send_deferred(|| self.now());
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
