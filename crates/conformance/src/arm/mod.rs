//! Where a scenario is played: two connected sides with verbs, whatever runs underneath.
//!
//! | module | idea |
//! |---|---|
//! | [`virtual_time`] | two `nic`s, a link with faults, and a clock that jumps: deterministic |
//! | [`loopback`] | two `host` adapters on real sockets and the real clock |
//! | [`abi`] | any `libibverbs.so.1` through its C interface: ours, or the genuine one over the kernel's stack |
//! | [`real_time`] | what the arms on the real clock share |
//! | [`buffer`] | memory of this process that an adapter may write |
//! | [`refusal`] | why a verb was refused, in the numbers of the C library |
//!
//! The vocabulary is `nic`'s. Where an arm cannot do what a scenario needs it says why ([`Arm::lacks`]); nothing is left
//! out in silence.

pub mod abi;
pub mod buffer;
pub mod loopback;
pub mod real_time;
pub mod refusal;
pub mod virtual_time;
mod window_keys;

use nic::verbs::{
    Access, AddressVector, Ah, AsyncEvent, Binding, Completion, Cq, Mr, MrInfo, Mw, MwType, Pd, QpAttributes,
    QpChange, QpInit, RecvRequest, SendRequest, Srq, SrqAttributes, SrqChange,
};
use wire::{Gid, Qpn};

pub use refusal::Refusal;

/// Bytes of memory that each side has.
pub const MEMORY: u64 = 1 << 20;

/// Why an arm with faults has no [`Need::Lossless`].
pub const LOSSY: &str = "packets are lost, doubled and overtaken on purpose";

/// What a verb returns.
pub type Verb<T> = Result<T, Refusal>;

/// One end: an open device, and memory that can be registered.
pub trait Side {
    /// The address of its memory, as requests name it.
    fn address(&self) -> u64;
    /// Writes to its memory, as the program that owns it does.
    fn store(&mut self, offset: u64, bytes: &[u8]);
    /// Reads its memory.
    fn load(&mut self, offset: u64, length: usize) -> Vec<u8>;
    /// The entry of the GID table by which the other side reaches it.
    fn gid(&self) -> (u8, Gid);
    /// Does what is due without being asked, if that takes a call.
    fn progress(&mut self);

    /// Makes a protection domain.
    fn alloc_pd(&mut self) -> Verb<Pd>;
    /// Unmakes it.
    fn dealloc_pd(&mut self, pd: Pd) -> Verb<()>;
    /// Registers `length` bytes at `address`, which lie in the side's memory, under addresses from `iova` on.
    fn reg_mr(&mut self, pd: Pd, address: u64, length: u64, iova: u64, access: Access) -> Verb<MrInfo>;
    /// Ends that.
    fn dereg_mr(&mut self, mr: Mr) -> Verb<()>;
    /// Makes a window; returns it and its first key.
    fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Verb<(Mw, u32)>;
    /// Unmakes it.
    fn dealloc_mw(&mut self, window: Mw) -> Verb<()>;
    /// Binds a window of type 1 with a signalled request; returns its new key.
    fn bind_mw(&mut self, qpn: Qpn, wr_id: u64, window: Mw, binding: &Binding) -> Verb<u32>;

    /// Makes a completion queue, whose events [`Side::cq_event`] takes.
    fn create_cq(&mut self, capacity: u32) -> Verb<Cq>;
    /// Unmakes it.
    fn destroy_cq(&mut self, cq: Cq) -> Verb<()>;
    /// Takes the oldest completion.
    fn poll_cq(&mut self, cq: Cq) -> Verb<Option<Completion>>;
    /// Asks for an event at the next completion, or the next solicited or failed one.
    fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Verb<()>;
    /// Takes the oldest completion event, if there is one.
    fn cq_event(&mut self) -> Option<Cq>;
    /// Takes the oldest asynchronous event, if there is one.
    fn async_event(&mut self) -> Option<AsyncEvent>;

    /// Makes a shared receive queue.
    fn create_srq(&mut self, pd: Pd, attributes: SrqAttributes) -> Verb<Srq>;
    /// Changes it.
    fn modify_srq(&mut self, srq: Srq, change: SrqChange) -> Verb<()>;
    /// Its attributes.
    fn query_srq(&mut self, srq: Srq) -> Verb<SrqAttributes>;
    /// Unmakes it.
    fn destroy_srq(&mut self, srq: Srq) -> Verb<()>;
    /// Posts a receive to it.
    fn post_srq_recv(&mut self, srq: Srq, request: &RecvRequest<'_>) -> Verb<()>;

    /// Makes an address handle.
    fn create_ah(&mut self, pd: Pd, path: AddressVector) -> Verb<Ah>;
    /// Unmakes it.
    fn destroy_ah(&mut self, ah: Ah) -> Verb<()>;
    /// Makes a queue pair a member of a multicast group.
    fn attach_mcast(&mut self, qpn: Qpn, group: Gid) -> Verb<()>;
    /// Ends that.
    fn detach_mcast(&mut self, qpn: Qpn, group: Gid) -> Verb<()>;

    /// Makes a queue pair.
    fn create_qp(&mut self, init: &QpInit) -> Verb<Qpn>;
    /// Changes it.
    fn modify_qp(&mut self, qpn: Qpn, change: &QpChange) -> Verb<()>;
    /// Its attributes; those that the arm cannot tell are as a new queue pair has them.
    fn query_qp(&mut self, qpn: Qpn) -> Verb<QpAttributes>;
    /// Unmakes it.
    fn destroy_qp(&mut self, qpn: Qpn) -> Verb<()>;
    /// Posts a send request.
    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Verb<()>;
    /// Posts a receive request.
    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Verb<()>;
}

/// Two sides that reach each other, and time.
pub trait Arm {
    /// Side 0 or 1.
    fn side(&mut self, index: usize) -> &mut dyn Side;

    /// Begins to wait for something: how long is the arm's affair.
    fn start_waiting(&mut self);

    /// Lets a little happen. False when nothing will happen any more, or the wait has lasted too long.
    fn step(&mut self) -> bool;

    /// Lets so much time pass that what had to happen has happened, and what did not happen was not to.
    fn settle(&mut self);

    /// A local ACK timeout code that fits the arm's speed: short, where packets are lost on purpose.
    fn ack_timeout(&self) -> u8;

    /// Why the arm has not got what some scenarios need, if it has not.
    fn lacks(&self, need: Need) -> Option<&'static str>;
}

/// What a scenario may need that not every arm has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Every packet arrives once and in order, so that unreliable messages arrive too.
    Lossless,
    /// A group's datagrams reach its members on the other side.
    Multicast,
    /// Asynchronous events about queue pairs: that the first message came, that a request was refused, that one takes no
    /// more shared receives.
    QueuePairEvents,
    /// A send queue is drained, and goes on with what was posted meanwhile.
    Drain,
    /// A queue key with the high bit set stands for the sender's own.
    OwnQueueKey,
    /// A fenced request with nothing to wait for is carried out.
    IdleFence,
}
