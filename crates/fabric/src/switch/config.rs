//! What a switch is set to.

use nic::Duration;

use crate::forward::Forwarding;
use crate::priority::{PRIORITIES, Priorities};
use crate::rate::Rate;

/// The settings of a switch. The defaults are those of a lossless RoCE network: priority 3 has PFC and
/// carries RoCE (DSCP 26), priority 6 is strict and carries congestion notifications (DSCP 48), the rest
/// is lossy.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Its buffer.
    pub buffer: BufferConfig,
    /// The priority of every DSCP.
    pub priorities: [u8; 64],
    /// The priorities that PFC protects.
    pub lossless: Priorities,
    /// The queues of every port, by priority.
    pub queues: [QueueConfig; PRIORITIES],
    /// How it chooses among equal paths.
    pub forwarding: Forwarding,
    /// Whether it waits for the end of a frame.
    pub switching: Switching,
    /// From the arrival of what it waits for to the earliest departure.
    pub latency: Duration,
    /// How it pauses others.
    pub pause: PauseConfig,
    /// What it does about queues that others pause for long.
    pub watchdog: Option<WatchdogConfig>,
}

/// How the buffer of a switch is divided.
///
/// Every lossless priority of every port has `reserved` bytes of its own and, beyond its threshold,
/// headroom of its own. All else is shared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferConfig {
    /// All of it, in bytes.
    pub total: u64,
    /// Bytes of each lossless priority of each port that it shares with nobody.
    pub reserved: u32,
    /// How much of the shared part one lossless priority of one port may take before it says XOFF.
    pub threshold: Threshold,
    /// If set, the share of ports faster than this grows with their rate (Li et al. 2019).
    pub scaled_to: Option<Rate>,
    /// Bytes for what still arrives after XOFF.
    pub headroom: HeadroomConfig,
    /// XON is said this many bytes below the threshold: two packets, at least.
    pub xon_offset: u32,
    /// Size of the cells that the buffer is cut into, in bytes; 1 if it is not.
    pub cell: u32,
}

/// A limit on a part of the shared buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Two to this power times what is free of it (Choudhury and Hahne 1998): SONiC's `dynamic_th`.
    Dynamic(i8),
    /// So many bytes.
    Static(u32),
}

impl Threshold {
    /// The limit while so many bytes are free.
    pub(crate) const fn limit(self, free: u64) -> u64 {
        match self {
            Self::Dynamic(power @ 0..) => free << power,
            Self::Dynamic(power) => free >> -power,
            Self::Static(bytes) => bytes as u64,
        }
    }

    /// The limit of a port that may take twice as much for each doubling of its rate over `base`, up to
    /// all that is free.
    pub(crate) fn scaled(self, rate: Rate, base: Rate) -> Self {
        let Self::Dynamic(power) = self else { return self };
        let doublings = (rate.bits_per_second() / base.bits_per_second()).max(1).ilog2() as i8;
        Self::Dynamic((power + doublings).min(power.max(0)))
    }
}

/// Where the headroom of a port comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadroomConfig {
    /// From the port's rate, its cable and these frame sizes, by [`Headroom`](super::Headroom).
    Computed {
        /// The largest frame of a lossless priority.
        lossless_mtu: u32,
        /// The largest frame.
        port_mtu: u32,
    },
    /// So many bytes for each lossless priority of every port.
    Fixed(u32),
    /// So many times the bytes that the cable holds one way.
    Cables(u32),
}

/// A queue of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueConfig {
    /// When it is served.
    pub service: Service,
    /// When its packets are marked.
    pub ecn: Option<Wred>,
    /// How long it may grow, if it is lossy: a limit on a part of the shared buffer.
    pub limit: Threshold,
}

/// How queues share a port (IEEE 802.1Q, 37: enhanced transmission selection).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Before all lower priorities and all weighted ones.
    Strict,
    /// By deficit round robin, in proportion to its weight.
    Weighted(u16),
}

/// Random early marking by the length of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wred {
    /// No packet is marked up to this length, in bytes.
    pub min: u32,
    /// Every packet is marked above this length.
    pub max: u32,
    /// The probability of a mark just below `max`; it grows evenly from `min`.
    pub probability: f64,
}

/// Whether a switch waits for the end of a frame before it sends it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switching {
    /// It does, and drops frames that arrived damaged.
    StoreAndForward,
    /// Not if the frame leaves by a free port that is no faster than the one it came by: it starts after
    /// this many bytes. Damaged frames travel on.
    CutThrough {
        /// Bytes of a frame that it must have seen.
        after: u16,
    },
}

/// How a node pauses its peers and obeys them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseConfig {
    /// The quanta of an XOFF, of 512 bit times each.
    pub quanta: u16,
    /// How long it takes to obey a pause once the frame has arrived.
    pub reaction: Reaction,
}

/// How long a node takes to obey a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// As long as IEEE 802.3, annex 31B, allows a port of its rate.
    Slowest,
    /// So long.
    Fixed(Duration),
}

impl Default for PauseConfig {
    fn default() -> Self {
        Self { quanta: u16::MAX, reaction: Reaction::Fixed(Duration::ZERO) }
    }
}

/// When a queue that is paused for long is not paused any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// A queue that was paused and sent nothing for so long is stalled.
    pub detection: Duration,
    /// Once it was not paused for so long, it is as it was.
    pub restoration: Duration,
    /// What is done about it.
    pub action: WatchdogAction,
}

/// What a watchdog does to a stalled queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Drops its packets and those that come.
    Drop,
    /// Sends its packets, whatever the peer says.
    Forward,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { service: Service::Weighted(1), ecn: None, limit: Threshold::Dynamic(0) }
    }
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self {
            total: 32 << 20,
            reserved: 4096,
            threshold: Threshold::Dynamic(-3),
            scaled_to: None,
            headroom: HeadroomConfig::Computed { lossless_mtu: 4200, port_mtu: 9216 },
            xon_offset: 2 * 4200,
            cell: 1,
        }
    }
}

impl SwitchConfig {
    /// The priority of RoCE by default.
    pub const ROCE: u8 = 3;
    /// The priority of congestion notifications by default.
    pub const NOTIFICATIONS: u8 = 6;
}

impl Default for SwitchConfig {
    fn default() -> Self {
        let mut queues = [QueueConfig::default(); PRIORITIES];
        queues[usize::from(Self::NOTIFICATIONS)].service = Service::Strict;
        Self {
            buffer: BufferConfig::default(),
            priorities: std::array::from_fn(|dscp| dscp as u8 / 8),
            lossless: Priorities::of(Self::ROCE),
            queues,
            forwarding: Forwarding::default(),
            switching: Switching::StoreAndForward,
            latency: Duration::ZERO,
            pause: PauseConfig::default(),
            watchdog: None,
        }
    }
}
