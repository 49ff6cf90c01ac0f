//! Moves frames and byte streams through the operating system; knows no protocol.
//!
//! Linux only. Every file descriptor made here is close-on-exec and non-blocking unless its constructor says otherwise,
//! because the crate runs inside other people's programs, which fork, exec and signal as they like.
//!
//! - [`channel`]: messages with file descriptors between processes
//! - [`clock`], [`event`], [`poll`]: time, waking, sleeping
//! - [`detached`]: starting a service unnoticed by the program around us
//! - [`interfaces`]: interfaces, addresses and routes of the machine
//! - [`reuseport`]: one UDP port for many sockets, steered by a field of the payload
//! - [`udp`]: datagrams with segmentation offload, gathered from registered memory without a copy

mod bytes;
pub mod channel;
pub mod clock;
pub mod detached;
pub mod event;
pub mod interfaces;
mod netlink;
pub mod poll;
pub mod reuseport;
pub mod udp;
