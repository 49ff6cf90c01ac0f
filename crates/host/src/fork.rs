//! What becomes of an open adapter when the program forks.
//!
//! Parent and child have the adapter's state twice, but the wire only once. So after a fork the adapter
//! belongs to the process that first calls a verb on it: the parent of a child that goes on to exec or
//! to open an adapter of its own, or the child of a parent that exits or waits, as daemons do. Until one
//! of them calls, the parent's worker serves the wire. For the other process the adapter is cut off: its
//! verbs still answer, but nothing is sent or received any more.
//!
//! The claim is a word in memory that both processes share. It holds the number of forks so far beside
//! the claimant, so that a process which lost, or never called, cannot claim what has since moved on.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use ::io::channel::Channel;

use crate::engine::Engine;
use crate::shared::Shared;
use crate::slot::Lease;

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This process has the adapter; it needs a worker of its own.
    Ours,
    /// Another process has it.
    Lost,
}

/// Which process an adapter belongs to. Only to be used under the engine's lock, which a fork holds.
#[derive(Debug)]
pub(crate) struct Ownership {
    word: SharedWord,
    /// Forks of this adapter, as this process knows them.
    epoch: AtomicU32,
    /// What this process knows already: one of the constants below.
    known: AtomicU32,
}

/// This process has the adapter and serves it.
const OWNED: u32 = 0;
/// A fork happened; this process is the parent, whose worker still runs.
const PARENT: u32 = 1;
/// A fork happened; this process is the child, which has no worker.
const CHILD: u32 = 2;
/// Another process has the adapter.
const LOST: u32 = 3;

impl Ownership {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { word: SharedWord::new()?, epoch: AtomicU32::new(0), known: AtomicU32::new(OWNED) })
    }

    /// Claims the adapter if that is still open; `None` in the usual case, in which nothing changed.
    pub(crate) fn claim(&self) -> Option<Claim> {
        match self.known.load(Ordering::Relaxed) {
            OWNED | LOST => None,
            state => self.settle(state),
        }
    }

    /// Whether the worker of this process has to stop, because the child has the adapter.
    pub(crate) fn is_lost(&self) -> bool {
        match self.known.load(Ordering::Relaxed) {
            OWNED => false,
            LOST => true,
            _ => {
                let word = self.word.get().load(Ordering::Acquire);
                word != unclaimed(self.epoch.load(Ordering::Relaxed)) && word as u32 != std::process::id()
            }
        }
    }

    #[cold]
    fn settle(&self, state: u32) -> Option<Claim> {
        let free = unclaimed(self.epoch.load(Ordering::Relaxed));
        let ours = free | u64::from(std::process::id());
        let won = match self.word.get().compare_exchange(free, ours, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(found) => found == ours,
        };
        self.known.store(if won { OWNED } else { LOST }, Ordering::Relaxed);
        match (won, state) {
            (false, _) => Some(Claim::Lost),
            (true, CHILD) => Some(Claim::Ours),
            (true, _) => None,
        }
    }

    /// Opens the claim anew: a fork is about to happen. That is for the owner to do; where nobody has
    /// claimed since the last fork, the claim is open as it is, to all processes forked since.
    fn open(&self) {
        if self.known.load(Ordering::Relaxed) == OWNED {
            let epoch = self.epoch.load(Ordering::Relaxed).wrapping_add(1);
            self.epoch.store(epoch, Ordering::Relaxed);
            self.word.get().store(unclaimed(epoch), Ordering::Release);
        }
    }

    fn forked(&self, side: u32) {
        let known = self.known.load(Ordering::Relaxed);
        // A child that forks before it claimed is still without a worker.
        if known != LOST && !(known == CHILD && side == PARENT) {
            self.known.store(side, Ordering::Relaxed);
        }
    }
}

fn unclaimed(epoch: u32) -> u64 {
    u64::from(epoch) << 32
}

/// A word of memory shared with all processes forked from this one.
#[derive(Debug)]
struct SharedWord(NonNull<AtomicU64>);

// SAFETY: it points to an atomic.
unsafe impl Send for SharedWord {}
// SAFETY: it points to an atomic.
unsafe impl Sync for SharedWord {}

impl SharedWord {
    fn new() -> io::Result<Self> {
        // SAFETY: a new anonymous mapping, aliased by nothing.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(page.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn get(&self) -> &AtomicU64 {
        // SAFETY: mapped until this is dropped, zeroed, aligned to a page.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this length.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<AtomicU64>()) };
    }
}

// ---- the handlers

static ADAPTERS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The locks that a thread holds over its fork, so that the child finds every engine at rest.
#[derive(Default)]
struct Held {
    adapters: Vec<Arc<Shared>>,
    engines: Vec<MutexGuard<'static, Engine>>,
    leases: Vec<HeldLease>,
    list: Option<MutexGuard<'static, Vec<Weak<Shared>>>>,
}

/// A connection to the service with nothing under way.
struct HeldLease {
    _guard: MutexGuard<'static, Channel>,
    /// After the guard, which borrows from it.
    _lease: Arc<Lease>,
}

impl HeldLease {
    fn new(lease: Arc<Lease>) -> Self {
        let guard = lease.lock();
        // SAFETY: the guard borrows from the Arc beside it, which is dropped after it.
        let guard =
            unsafe { std::mem::transmute::<MutexGuard<'_, Channel>, MutexGuard<'static, Channel>>(guard) };
        Self { _guard: guard, _lease: lease }
    }
}

thread_local! {
    static HELD: std::cell::RefCell<Held> = std::cell::RefCell::default();
}

/// Makes an adapter known to the handlers.
pub(crate) fn register(shared: &Arc<Shared>) {
    static HANDLERS: Once = Once::new();
    // SAFETY: the handlers take no arguments, and stay in memory: the library is never unloaded.
    HANDLERS.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
        libc::atexit(at_exit);
    });
    let mut adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
    adapters.retain(|adapter| adapter.strong_count() > 0);
    adapters.push(Arc::downgrade(shared));
}

/// A program may exit right after the completion that it waited for, owing its peer the answer.
extern "C" fn at_exit() {
    let adapters: Vec<Arc<Shared>> = match ADAPTERS.try_lock() {
        Ok(list) => list.iter().filter_map(Weak::upgrade).collect(),
        Err(_) => return,
    };
    adapters.iter().for_each(|adapter| adapter.send_deferred());
}

unsafe extern "C" fn before() {
    let list = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
    let adapters: Vec<Arc<Shared>> = list.iter().filter_map(Weak::upgrade).collect();
    let mut engines: Vec<MutexGuard<'static, Engine>> = adapters
        .iter()
        .map(|adapter| {
            let guard = adapter.lock();
            adapter.ownership.open();
            // SAFETY: the guard borrows from an Arc that `Held` keeps beside it and drops after it.
            unsafe { std::mem::transmute::<MutexGuard<'_, Engine>, MutexGuard<'static, Engine>>(guard) }
        })
        .collect();
    // Whoever asks the service something does so without an engine's lock, and will be done shortly.
    let leases = engines.iter_mut().filter_map(|engine| engine.link().lease()).map(HeldLease::new).collect();
    HELD.with_borrow_mut(|held| *held = Held { adapters, engines, leases, list: Some(list) });
}

unsafe extern "C" fn after_in_parent() {
    release(PARENT);
}

unsafe extern "C" fn after_in_child() {
    release(CHILD);
}

fn release(side: u32) {
    let mut held = HELD.take();
    for adapter in &held.adapters {
        adapter.ownership.forked(side);
    }
    held.leases.clear();
    held.engines.clear();
    held.list = None;
}
