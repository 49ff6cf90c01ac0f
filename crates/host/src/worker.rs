//! The thread that serves the wire while the program's own threads do not.
//!
//! One-sided operations, acknowledgements and retransmissions must go on when the program computes,
//! sleeps on a completion channel or watches its memory. Yet a program that polls its completion queue
//! is faster alone: a second thread that wakes up for every packet costs two context switches and fights
//! for the lock. So the worker *listens* (sleeps until a packet arrives) or *naps* (sleeps for a fixed
//! time, packets or not), and learns which is right:
//!
//! - listening, it finds again and again that the program was faster: it naps;
//! - napping, it finds that the program stopped polling: it listens, and if packets had to wait for it,
//!   it naps less readily from then on.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration as StdDuration;

use io::event::Wakeup;
use io::interfaces::{AddressWatch, watch_addresses};
use io::poll::{Interest, Poller};
use io::udp::UdpSocket;

use nic::{Duration, Instant};

use crate::cm::MadChannel;
use crate::shared::Shared;

/// How long a nap is.
const NAP: Duration = Duration::from_millis(1);

/// A program that has not polled for so long has stopped polling.
const POLL_GAP: Duration = Duration::from_micros(200);

/// A program that polled so shortly ago polls without a pause: one round takes less.
const POLL_ROUND: Duration = Duration::from_micros(2);

/// How often in a row the program must be faster before the worker naps.
const LOSSES_BEFORE_NAP: u32 = 16;

/// The largest multiple of that, after naps that packets had to wait for.
const MAX_RELUCTANCE: u32 = 1 << 12;

/// While verbs are called, the longest sleep: a call need then not wake the worker for each timer it
/// starts. It bounds how late a retransmission can be.
const ATTENTIVE: Duration = Duration::from_millis(10);

/// How long after the last sign of life that holds.
const ATTENTION_SPAN: Duration = Duration::from_millis(1000);

/// What the worker does if the program is at work itself: it looks again so much later.
const PAUSE: Duration = Duration::from_micros(50);

/// When the worker looks in next, and the means to make that earlier.
#[derive(Debug)]
pub(crate) struct Alarm {
    wakeup: Wakeup,
    /// Until when the worker sleeps, in picoseconds of the adapter's clock; [`AWAKE`] if it does not.
    until: AtomicU64,
}

/// The worker will look at every deadline before it sleeps.
const AWAKE: u64 = 0;
/// The worker sleeps until something arrives.
const FOREVER: u64 = u64::MAX;

impl Alarm {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { wakeup: Wakeup::new()?, until: AtomicU64::new(AWAKE) })
    }

    /// Wakes the worker now.
    pub(crate) fn ring(&self) {
        self.wakeup.wake();
    }

    /// Sleeps until `until`, a call to [`Alarm::ring`], a change of addresses, or, when listening, a packet.
    fn sleep(
        &self,
        socket: &UdpSocket,
        watch: Option<&AddressWatch>,
        mads: Option<&MadChannel>,
        mode: Mode,
        now: Instant,
        until: Option<Instant>,
    ) -> News {
        self.until.store(until.map_or(FOREVER, Instant::as_picos), Ordering::Release);
        let mut poller = Poller::new();
        poller.add(self.wakeup.as_fd(), Interest::Readable);
        let packet = match mode {
            Mode::Listen => Some(poller.add(socket.as_fd(), Interest::Readable)),
            Mode::Nap => None,
        };
        let addresses = watch.map(|watch| poller.add(watch.as_fd(), Interest::Readable));
        // Napping or not: the program does not look for these itself.
        let mads = mads.map(|mads| poller.add(mads.as_fd(), Interest::Readable));
        let slept = poller.wait(until.map(|until| (until - now).as_nanos_ceil()));
        self.until.store(AWAKE, Ordering::Release);
        self.wakeup.clear();
        let is_ready =
            |index: Option<usize>| slept.is_ok() && index.is_some_and(|index| poller.is_ready(index));
        News { packet: is_ready(packet), addresses: is_ready(addresses), mads: is_ready(mads) }
    }

    /// Wakes the worker if it would sleep past `deadline` by more than it may.
    pub(crate) fn bring_forward(&self, deadline: Instant) {
        if self.until.load(Ordering::Acquire) > (deadline + ATTENTIVE).as_picos() {
            self.ring();
        }
    }
}

/// Starts the worker of an adapter.
pub(crate) fn start(shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    let spawned =
        std::thread::Builder::new().name("softverbs".into()).stack_size(256 << 10).spawn(move || {
            block_signals();
            ask_for_short_slices();
            run(&shared);
        });
    if let Err(error) = spawned {
        // Without it the adapter works as long as the program polls.
        eprintln!("softverbs: no background thread ({error}): the adapter answers only while it is polled");
    }
}

/// The program's signals are for the program's threads.
fn block_signals() {
    // SAFETY: a signal set of our own, and the mask of our own thread.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

/// Asks the scheduler for many short turns instead of few long ones, so that the worker runs soon after
/// a packet woke it, also beside threads that spin. Linux before 6.12 takes no notice.
fn ask_for_short_slices() {
    /// The shortest slice the scheduler grants, in nanoseconds.
    const SLICE: u64 = 100_000;
    /// `struct sched_attr` of sched_setattr(2), first version.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>() as u32;
    // SAFETY: reads the attributes of this thread into a struct of the size given.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if known == 0 && attributes.policy == libc::SCHED_OTHER as u32 {
        attributes.runtime = SLICE;
        // SAFETY: sets them for this thread. A refusal changes nothing.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

fn run(shared: &Shared) {
    let mut habit = Habit::default();
    // Without it the GID table stays what it was when the adapter was opened.
    let watch = watch_addresses().ok();
    while !shared.is_closed() && !shared.is_lost() {
        let now = shared.now();
        let polled = Instant::from_picos(shared.last_poll.load(Ordering::Relaxed));
        let mode = habit.mode(now - polled);
        let until = match mode {
            Mode::Nap => Some(now + NAP),
            Mode::Listen => sleep_until(shared, &habit, now),
        };
        let news = shared.alarm.sleep(&shared.socket, watch.as_ref(), shared.mads(), mode, now, until);
        if news.addresses {
            follow_addresses(shared, watch.as_ref());
        }
        if news.mads {
            serve_connections(shared);
            if !news.packet {
                continue;
            }
        }
        serve(shared, &mut habit, mode, news.packet);
    }
}

/// Brings the GID table up to date.
fn follow_addresses(shared: &Shared, watch: Option<&AddressWatch>) {
    if watch.is_some_and(|watch| watch.take().unwrap_or(false)) {
        let mut engine = shared.lock();
        engine.refresh_gids();
        engine.dispatch_events();
    }
}

/// Takes the datagrams of connection management, which the program leaves to us.
fn serve_connections(shared: &Shared) {
    let mut engine = shared.lock();
    // What arrived may be for the child, which has another worker.
    if !shared.ownership.is_lost() {
        engine.receive_mads(shared.now());
    }
}

/// What ended a sleep, beside time and alarm.
#[derive(Clone, Copy, Debug)]
struct News {
    packet: bool,
    addresses: bool,
    mads: bool,
}

/// How long a listening worker may sleep.
fn sleep_until(shared: &Shared, habit: &Habit, now: Instant) -> Option<Instant> {
    // If the program holds the lock it is about to post or poll: look again shortly.
    let Some(engine) = shared.try_lock() else { return Some(now + PAUSE) };
    let due = engine.next_deadline();
    let attentive = (now - habit.last_life < ATTENTION_SPAN).then_some(now + ATTENTIVE);
    [due, attentive].into_iter().flatten().min()
}

/// Does the work there is, and learns whose it should have been.
fn serve(shared: &Shared, habit: &mut Habit, mode: Mode, arrived: bool) {
    let now = shared.now();
    let polled = Instant::from_picos(shared.last_poll.load(Ordering::Relaxed));
    let program_polls = now - polled < POLL_GAP;
    if mode == Mode::Nap && program_polls {
        return;
    }
    let engine = if now - polled < POLL_ROUND { None } else { shared.try_lock() };
    let Some(mut engine) = engine else {
        habit.lost(now);
        // What arrived is still there, and would wake us at once.
        std::thread::sleep(StdDuration::from_nanos(PAUSE.as_nanos_ceil()));
        return;
    };
    // The child may have claimed the adapter during the sleep: what arrived is for the child.
    if shared.ownership.is_lost() {
        return engine.link().cut();
    }
    let found = engine.progress(now);
    drop(engine);
    match (mode, arrived, found) {
        (Mode::Nap, _, true) => habit.overslept(now),
        (Mode::Listen, true, true) => habit.won(now),
        (Mode::Listen, true, false) => habit.lost(now),
        _ => {}
    }
}

/// What the worker does while it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Sleeps until a packet arrives.
    Listen,
    /// Sleeps for a fixed time.
    Nap,
}

/// What the worker has learnt about the program.
#[derive(Debug)]
struct Habit {
    /// How often in a row the program was faster.
    losses: u32,
    /// By how much more often than usual it must have been before the next nap.
    reluctance: u32,
    /// When anything last arrived.
    last_life: Instant,
}

impl Default for Habit {
    fn default() -> Self {
        Self { losses: 0, reluctance: 1, last_life: Instant::ZERO }
    }
}

impl Habit {
    fn mode(&self, since_poll: Duration) -> Mode {
        let convinced = self.losses >= LOSSES_BEFORE_NAP * self.reluctance;
        if convinced && since_poll < POLL_GAP { Mode::Nap } else { Mode::Listen }
    }

    /// The program took what woke the worker.
    fn lost(&mut self, now: Instant) {
        self.losses = self.losses.saturating_add(1);
        self.last_life = now;
    }

    /// The worker took what woke it.
    fn won(&mut self, now: Instant) {
        self.losses = 0;
        self.last_life = now;
    }

    /// Packets waited through a nap.
    fn overslept(&mut self, now: Instant) {
        self.won(now);
        self.reluctance = (self.reluctance * 2).min(MAX_RELUCTANCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Duration = Duration::from_nanos(500);

    #[test]
    fn naps_only_beside_a_program_that_polls_and_wins() {
        let mut habit = Habit::default();
        assert_eq!(habit.mode(BUSY), Mode::Listen);
        (0..LOSSES_BEFORE_NAP).for_each(|_| habit.lost(Instant::ZERO));
        assert_eq!(habit.mode(BUSY), Mode::Nap);
        assert_eq!(habit.mode(POLL_GAP), Mode::Listen);
        habit.won(Instant::ZERO);
        assert_eq!(habit.mode(BUSY), Mode::Listen);
    }

    #[test]
    fn a_nap_that_cost_time_makes_the_next_one_rarer() {
        let mut habit = Habit::default();
        habit.overslept(Instant::ZERO);
        (0..LOSSES_BEFORE_NAP).for_each(|_| habit.lost(Instant::ZERO));
        assert_eq!(habit.mode(BUSY), Mode::Listen);
        (0..LOSSES_BEFORE_NAP).for_each(|_| habit.lost(Instant::ZERO));
        assert_eq!(habit.mode(BUSY), Mode::Nap);
    }
}
