//! Runs an adapter in real time on real memory: the safe Rust API of Softverbs, and what its C library
//! is made of.
//!
//! | module | idea |
//! |---|---|
//! | [`api`] | the safe Rust API |
//! | [`adapter`] | the adapter as threads share it: every verb, thread-safe |
//! | [`channel`] | news to sleep on, behind file descriptors |
//! | [`config`] | what an adapter is opened with |
//! | [`device`] | the device there is, and opening it |
//! | [`slot`] | one address and one UDP port for many programs, without root |
//! | [`cm`] | connection management: who listens, who connects, and what they hear of each other |
//! | `engine` | a `nic` with a link: what the adapter's lock protects |
//! | `link` | RoCE v2 on a UDP socket: encoding, decoding, faults, captures |
//! | `gids` | the machine's addresses as a GID table |
//! | `pace` | what leaves at once, and what waits for company |
//! | `worker` | the thread that serves the wire while the program does not |
//! | `fork` | who has the adapter after a fork |
//! | `memory` | registered memory as the adapter reads and writes it |

pub mod adapter;
pub mod api;
pub mod channel;
pub mod cm;
pub mod config;
pub mod device;
mod engine;
mod fork;
mod gids;
mod link;
mod memory;
mod pace;
mod shared;
pub mod slot;
mod worker;

pub use api::*;

pub use adapter::{Adapter, CompletionChannel, CqNotification, Poster};
pub use config::{Config, ConfigError};
pub use device::{Device, OpenError};
pub use gids::GID_TABLE_LENGTH;
pub use link::{Capture, FaultPlan, FaultPlanError, LinkCounters};
