//! Typed headers and checksums of RoCE and what carries it.
#![no_std]
#![forbid(unsafe_code)]

mod bth;
mod bytes;
mod error;
mod extended;
mod headers;
mod number;
mod opcode;

pub use bth::Bth;
pub use error::{Layer, ParseError};
pub use extended::{Aeth, AtomicAckEth, AtomicEth, Deth, NakCode, Reth, Syndrome, Xrceth};
pub use headers::{Extended, Headers, Immediate};
pub use number::{Psn, Qpn};
pub use opcode::{ExtendedKind, ImmediateKind, Kind, Layout, Opcode, Operation, Position, Service};
