//! The device that every machine has, and opening it.

use std::sync::Arc;

use nic::Nic;
use nic::verbs::Limits;

use crate::adapter::Adapter;
use crate::channel::Channel;
use crate::config::{Config, ConfigError};
use crate::engine::Engine;
use crate::fork::Ownership;
use crate::link::{Capture, Link};
use crate::memory::HostMemory;
use crate::shared::Shared;
use crate::slot::{SUFFIX_BITS, Slot, SlotError};
use crate::worker;

/// Our organizationally unique identifier: none is assigned, so one with the local bit, spelling "SV".
pub const VENDOR_ID: u32 = 0x02_53_56;

/// The only part there is.
pub const VENDOR_PART_ID: u32 = 1;

/// Bytes in flight per connection, at most and at least.
const WINDOW: std::ops::RangeInclusive<u32> = 64 << 10..=1 << 20;

/// How many full windows a receiving socket's buffer shall hold, counted as the kernel does: with its
/// overhead, which doubles small packets.
const WINDOWS_PER_BUFFER: usize = 8;

/// The device that every machine has: RoCE v2 on all its addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    config: Config,
}

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No place on the RoCE v2 port.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The capture file cannot be appended to.
    #[error("cannot append to the capture file {path}: {error}")]
    Capture {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The system refused something else.
    #[error("cannot open the adapter: {0}")]
    System(#[from] std::io::Error),
}

impl Device {
    /// The device, as the environment of this process describes it.
    pub fn from_environment() -> Result<Self, ConfigError> {
        Config::from_environment().map(Self::new)
    }

    /// The device, as `config` describes it.
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.device_name
    }

    /// Its GUID: the same for all programs of a machine, another on other machines.
    pub fn guid(&self) -> u64 {
        machine_guid()
    }

    /// Its limits.
    pub fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Opens it. Each call gives an adapter of its own.
    pub fn open(&self) -> Result<Adapter, OpenError> {
        let slot = Slot::obtain()?;
        let capture = self.config.pcap.as_deref().map(Capture::append).transpose();
        let capture = capture.map_err(|error| OpenError::Capture {
            path: self.config.pcap.as_deref().unwrap_or("".as_ref()).display().to_string(),
            error,
        })?;
        let limits = self.limits();
        // The peer's buffer is taken to be like ours, which on the same machine it is.
        let window = slot.socket().buffer_sizes()?.receive / WINDOWS_PER_BUFFER;
        let window = (window as u32).clamp(*WINDOW.start(), *WINDOW.end());
        let nic = Nic::new(
            nic::Config {
                qpn_suffix: u32::from(slot.number()),
                qpn_suffix_bits: SUFFIX_BITS,
                limits,
                seed: seed(),
                window,
                ecn: true,
                ..nic::Config::default()
            },
            HostMemory::new(),
        );
        let socket = Arc::clone(slot.socket());
        let link = Link::new(slot, self.config.faults, capture);
        let events = Arc::new(Channel::new()?);
        let mut engine = Engine::new(nic, link, Arc::clone(&events));
        engine.refresh_gids();
        engine.forget_events();
        let shared = Shared::new(engine, socket, events, limits, Ownership::new()?)?;
        worker::start(&shared);
        Ok(Adapter::from_shared(shared))
    }
}

/// The GUID of this machine's device.
pub(crate) fn machine_guid() -> u64 {
    guid(&io::interfaces::interfaces().unwrap_or_default())
}

/// An EUI-64 made from the first MAC address of the machine, or from its host name if it has none.
fn guid(interfaces: &[io::interfaces::Interface]) -> u64 {
    let mac = interfaces.iter().filter_map(|interface| interface.mac).find(|mac| *mac != [0; 6]);
    let [a, b, c, d, e, f] = mac.unwrap_or_else(|| {
        let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
        let hash = name.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        let [a, b, c, d, e, f, ..] = hash.to_be_bytes();
        [a & 0xFC | 0x02, b, c, d, e, f]
    });
    u64::from_be_bytes([a ^ 0x02, b, c, 0xFF, 0xFE, d, e, f])
}

/// Something that differs from one opening to the next, so that stale packets and keys find nothing.
pub(crate) fn seed() -> u64 {
    (u64::from(std::process::id()) << 32) ^ io::clock::now_ns()
}
