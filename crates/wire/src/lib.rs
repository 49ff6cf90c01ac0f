//! Typed headers and checksums of RoCE and what carries it.
//!
//! Every header is a small value: `parse` reads it from the start of a slice,
//! `emit` writes it there, `LEN` is its length. Parsing is where bad bytes stop:
//! it answers with a [`ParseError`] and never panics. Unknown code points are
//! kept, so that what was parsed is emitted again as it came. No memory is
//! allocated.
//!
//! From the inside out:
//!
//! | module | what it has |
//! |---|---|
//! | `number` | [`Psn`] and [`Qpn`], the 24-bit numbers |
//! | `opcode` | [`Opcode`]: [`Service`] and [`Operation`], with questions to ask of them |
//! | `layout` | the one table of which opcode carries which headers ([`Layout`]) |
//! | `bth` | [`Bth`], the base transport header |
//! | `extended` | the headers after it: [`Deth`], [`Reth`], [`Aeth`], [`AtomicEth`], [`AtomicAckEth`], [`Xrceth`] |
//! | `headers` | [`Headers`]: all of them as one value, which is what a simulated packet is |
//! | `packet` | [`Packet`]: from the BTH to the ICRC, which is what a UDP datagram carries |
//! | `mad` | [`MadHeader`], the head of management datagrams |
//! | [`cm`] | [`CmMad`](cm::CmMad): the messages that make and end connections |
//! | `icrc` | [`Icrc`], the checksum from end to end |
//! | `gid` | [`Gid`], the address of a port |
//! | `udp`, `ip`, `grh`, `ethernet` | what carries a packet: [`Udp`], [`Ipv4`], [`Ipv6`], [`Grh`], [`Ethernet`], [`Vlan`] |
//! | `checksum` | [`Checksum`], the Internet's |
//! | `frame` | [`Frame`]: a whole Ethernet frame, read as deep as it is understood |
//! | `error` | [`ParseError`] |
#![no_std]
#![forbid(unsafe_code)]

mod bth;
mod bytes;
mod checksum;
pub mod cm;
mod error;
mod ethernet;
mod extended;
mod frame;
mod gid;
mod grh;
mod headers;
mod icrc;
mod ip;
mod layout;
mod mad;
mod number;
mod opcode;
mod packet;
mod udp;

pub use bth::Bth;
pub use checksum::Checksum;
pub use error::{Layer, ParseError};
pub use ethernet::{EtherType, Ethernet, Mac, Vlan};
pub use extended::{Aeth, AtomicAckEth, AtomicEth, Deth, NakCode, Reth, Syndrome, Xrceth};
pub use frame::{Body, Frame, Network};
pub use gid::Gid;
pub use grh::Grh;
pub use headers::{Extended, Headers, Immediate};
pub use icrc::Icrc;
pub use ip::{Ecn, Ipv4, Ipv6, PROTOCOL_UDP, TrafficClass};
pub use layout::{ExtendedKind, ImmediateKind, Kind, Layout, Position};
pub use mad::{MadHeader, ManagementClass, Method};
pub use number::{Psn, Qpn};
pub use opcode::{Opcode, Operation, Service};
pub use packet::Packet;
pub use udp::{ROCE_V2_PORT, Udp};

/// The tests may allocate.
#[cfg(test)]
extern crate std;
