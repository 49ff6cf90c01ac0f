//! Moves frames and byte streams through the operating system; knows no protocol.
//!
//! Linux only. Every file descriptor made here is close-on-exec and non-blocking unless its constructor says otherwise,
//! because the crate runs inside other people's programs, which fork, exec and signal as they like.
//!
//! - [`reuseport`]: one UDP port for many sockets, steered by a field of the payload
//! - [`udp`]: datagrams with segmentation offload, gathered from registered memory without a copy

pub mod reuseport;
pub mod udp;
