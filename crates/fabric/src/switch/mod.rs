//! Ethernet switches: what they are set to, and what they count.
//!
//! | module | idea |
//! |---|---|
//! | [`config`] | the settings |
//! | [`headroom`] | how much a lossless priority needs beyond XOFF |
//! | `buffer` | who is charged for a packet, when XOFF and XON are due |
//! | `schedule` | which queue of a port is served next |
//! | `state` | a switch in a running network |

pub(crate) mod buffer;
pub mod config;
pub mod headroom;
pub(crate) mod schedule;
pub(crate) mod state;

pub use config::{
    BufferConfig, HeadroomConfig, PauseConfig, QueueConfig, Reaction, Service, SwitchConfig, Switching,
    Threshold, WatchdogAction, WatchdogConfig, Wred,
};
pub use headroom::Headroom;
