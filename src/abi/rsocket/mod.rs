//! Sockets over RDMA, as `rsocket(7)` describes them, by the protocols of librdmacm's own.
//!
//! ```text
//!   calls, transfer, mapped, options, poll        the calls of rsocket.h
//!        │ table: by number
//!        ▼
//!     socket ── state, ConnectionManager: connecting, accepting, the end
//!        │
//!        ▼
//!      link ── QueuePair, CompletionQueue, three regions of memory
//!        │         send memory: what is sent, until it is
//!        ▼         receive memory: what the peer writes, in two halves
//!     stream       told: where the peer says what memory there is to write to
//!   (no input or output: credits, targets, what there is to read)
//! ```
//!
//! What is written goes to the peer's receive memory by RDMA WRITE, whose immediate data says how much it was
//! ([`wire::Message`]). What the peer has read is offered again in halves, and receives are granted in numbers.
//!
//! Beside streams there are datagrams ([`datagram`]), whose sockets find each other by UDP.

mod calls;
mod datagram;
mod link;
mod mapped;
mod mapping;
mod options;
mod outcome;
mod packet;
mod poll;
mod settings;
mod shared;
mod socket;
mod state;
mod stream;
mod table;
mod transfer;
mod udp;
mod wire;

pub(super) use calls::*;
pub(super) use mapped::{iomap, iounmap, iowrite};
pub(super) use options::{fcntl, getsockopt, setsockopt};
pub(super) use poll::{poll, select};
pub(super) use transfer::*;
