//! Which way a packet takes.
//!
//! | module | idea |
//! |---|---|
//! | [`routes`] | the shortest paths of a topology, one small number per switch and destination |
//! | `choose` | the choice among equal ones: ECMP, flowlets, adaptive, spraying |
//! | `murmur` | the hash of the HPCC simulator, to take the very paths it takes |

pub(crate) mod choose;
mod murmur;
pub mod routes;

use nic::Duration;

pub use routes::Routes;

/// How a switch chooses among equal paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// By a hash of the 5-tuple: packets of a flow stay in order.
    Ecmp(Hash),
    /// A flow takes another path whenever it paused for `gap`, so that its packets stay in order if the
    /// paths differ by less (Vanini et al. 2017).
    Flowlet {
        /// The least pause.
        gap: Duration,
        /// Entries of the switch's table, a power of two; flows that share one are taken as one.
        entries: u32,
        /// The next path.
        choice: Choice,
    },
    /// The port with the fewest bytes queued, packet by packet; equal ones in turn.
    Adaptive,
    /// Every packet by itself.
    Spray(Choice),
}

/// How a path is chosen that need not be the one of the flow's last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// At random.
    Random,
    /// One after the other.
    InTurn,
    /// The port with the fewest bytes queued.
    LeastQueued,
}

/// Hashes of the 5-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// One of its own at every switch.
    PerSwitch,
    /// The same at every switch. Switches that see only flows which the switch before sent their way
    /// then choose alike, and leave paths idle: polarization.
    Common,
    /// That of the HPCC simulator for ns-3, with the addresses it gives its hosts.
    HpccNs3,
}

impl Default for Forwarding {
    fn default() -> Self {
        Self::Ecmp(Hash::PerSwitch)
    }
}
