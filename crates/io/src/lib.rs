//! Moves frames and byte streams through the operating system; knows no protocol.
//!
//! Linux only. Every file descriptor made here is close-on-exec and non-blocking unless its constructor says otherwise,
//! because the crate runs inside other people's programs, which fork, exec and signal as they like.
//!
//! - [`udp`]: datagrams with segmentation offload, gathered from registered memory without a copy

pub mod udp;
