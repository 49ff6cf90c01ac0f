//! One RDMA adapter as a sans-IO state machine.
//!
//! [`Nic`] holds every verbs object of one adapter and the InfiniBand transport that moves data between
//! them. It owns no clock, socket, thread or lock: verbs and packets come in as calls that carry the
//! time, and packets, completions and deadlines are polled out. The same value answers on a real wire
//! (in the `host` crate) and runs a thousand times over in a simulator.
//!
//! | module | idea |
//! |---|---|
//! | [`verbs`] | the vocabulary: handles, attributes, work requests, completions, events, errors |
//! | [`packet`] | what enters and leaves: routes, arrivals, runs of packets to transmit |
//! | [`memory`] | the seam to memory: segments, payloads, the [`Memory`] trait |
//! | [`time`] | instants and durations in picoseconds |
//! | [`congestion`] | when the next run may leave, and how much may be in flight |
//! | [`cm`] | connection management, on QP 1: [`Cm`](cm::Cm) |
//!
//! The order of calls: after any call that may have changed something (`post_*`, `modify_qp`,
//! `handle_packet`, `handle_timeout`), call [`Nic::poll_transmit`] until it returns `None`, then
//! [`Nic::poll_event`] until it returns `None`, and come back no later than [`Nic::poll_timeout`] says.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ah;
pub mod cm;
pub mod congestion;
mod cq;
mod datapath;
mod keys;
pub mod memory;
mod multicast;
mod nic;
pub mod packet;
mod port;
mod qp;
mod random;
mod receive;
mod schedule;
mod srq;
mod table;
pub mod time;
pub mod verbs;

pub use memory::{Memory, Payload, Segment};
pub use nic::{Config, Counters, Nic};
pub use packet::{Arrival, Route, Transmit};
pub use time::{Duration, Instant};
