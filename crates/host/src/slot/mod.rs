//! One address, many programs, one UDP port, no root.
//!
//! RoCE v2 tells programs apart by destination QPN, but a host has one port 4791. So the port is bound
//! by a group of sockets, one per *slot*, and a three-instruction filter picks the socket by the low
//! bits of the QPN. A small process, the [`service`], makes the group and hands each program the socket
//! of a free slot; the program gives its queue pairs numbers that end in its slot. From then on no
//! packet passes through another process.
//!
//! There is one service per network namespace. The first program that needs it starts it; it goes when
//! the last one has gone. It also keeps QP 1, the queue pair of a host on which connections are managed, and
//! the port numbers, for all programs: see [`cm`](crate::cm). A slot belongs to whoever holds the connection on which it was handed out, so
//! a program that is killed leaves nothing behind.
//!
//! Any user may connect: the sockets give nobody more than the right to receive on port 4791, which any
//! user has anyway. The service holds a copy of every socket, so its user could read what is sent to
//! other users' slots; where that matters start it as root: `softverbs service`.

mod background;
mod client;
mod lease;
mod management;
mod protocol;
mod service;
mod slots;

use ::io::channel::Address;

#[doc(hidden)]
pub use background::start_in_child;
pub use client::{Slot, SlotError};
pub(crate) use lease::Lease;
pub(crate) use protocol::{Forwarded, MAX_FORWARDED};
pub use service::{ServiceError, serve};

/// Low bits of a QPN that name the slot.
pub const SUFFIX_BITS: u8 = 8;

/// Slots, including the reserved ones.
pub const SLOTS: usize = 1 << SUFFIX_BITS;

/// The slot of QP 1, on which connections are managed: the service's own.
const MANAGEMENT: u8 = 1;

/// Slots that are never handed out, because a QPN of fixed meaning falls into them: QP 0 and QP 1
/// (management) and 0xFFFFFF (multicast).
const RESERVED: [usize; 3] = [0, MANAGEMENT as usize, SLOTS - 1];

/// The subcommand of `softverbs` that runs the service.
pub const SERVICE_COMMAND: &str = "service";

/// Its flag for being started by a program: it says nothing and goes when it is not needed.
pub const QUIET_FLAG: &str = "--on-demand";

/// Where the service listens: an abstract Unix address, which each network namespace has for itself.
fn address() -> Address {
    Address::Abstract("softverbs-roce-v2".to_owned())
}
