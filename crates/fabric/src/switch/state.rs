//! A switch in a running network.

use crate::forward::Forwarding;
use crate::forward::choose::Chooser;
use crate::priority::{PRIORITIES, Priorities};
use crate::random::Random;

use super::buffer::SharedBuffer;
use super::config::{QueueConfig, SwitchConfig, Switching, WatchdogConfig};
use super::schedule::Schedule;

/// What every packet of a switch needs of it.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    /// Its settings, among those of all switches.
    pub profile: u32,
    pub buffer: SharedBuffer,
    /// What marks are drawn from.
    pub random: Random,
    pub chooser: Chooser,
}

/// The settings of switches that are set alike, as they are looked up.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub priorities: [u8; 64],
    pub lossless: Priorities,
    pub schedule: Schedule,
    pub queues: [QueueConfig; PRIORITIES],
    pub forwarding: Forwarding,
    pub cuts_through: bool,
    cell: u32,
    pub watchdog: Option<WatchdogConfig>,
}

impl Profile {
    pub fn new(config: &SwitchConfig) -> Self {
        Self {
            priorities: config.priorities.map(|priority| priority & 0x7),
            lossless: config.lossless,
            schedule: Schedule::new(&config.queues),
            queues: config.queues,
            forwarding: config.forwarding,
            cuts_through: matches!(config.switching, Switching::CutThrough { .. }),
            cell: config.buffer.cell.max(1),
            watchdog: config.watchdog,
        }
    }

    /// The priority of a packet with this traffic class.
    pub fn priority(&self, traffic_class: u8) -> u8 {
        self.priorities[usize::from(traffic_class >> 2)]
    }

    /// The bytes of buffer that a frame occupies.
    pub fn occupied(&self, frame: u32) -> u32 {
        if self.cell == 1 { frame } else { frame.div_ceil(self.cell) * self.cell }
    }

    /// Whether a packet that leaves `queued` bytes behind is to be marked.
    pub fn marks(&self, priority: u8, queued: u32, random: &mut Random) -> bool {
        let Some(ecn) = self.queues[usize::from(priority)].ecn else { return false };
        if queued <= ecn.min {
            return false;
        }
        let part = f64::from(queued - ecn.min) / f64::from(ecn.max.saturating_sub(ecn.min).max(1));
        queued > ecn.max || random.unit() < ecn.probability * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::{BufferConfig, Wred};

    #[test]
    fn marks_grow_evenly_between_min_and_max() {
        let mut config = SwitchConfig::default();
        config.queues[3].ecn = Some(Wred { min: 400_000, max: 1_600_000, probability: 0.2 });
        let profile = Profile::new(&config);
        let mut random = Random::new(1);
        let mut share = |queued| (0..10_000).filter(|_| profile.marks(3, queued, &mut random)).count();
        assert_eq!((share(400_000), share(1_600_001)), (0, 10_000));
        let (half, full) = (share(1_000_000), share(1_600_000));
        assert!((880..1120).contains(&half) && (1840..2160).contains(&full), "{half}, {full}");
        assert!(!profile.marks(4, u32::MAX, &mut random));
    }

    #[test]
    fn frames_fill_whole_cells() {
        let buffer = BufferConfig { cell: 256, ..BufferConfig::default() };
        let profile = Profile::new(&SwitchConfig { buffer, ..SwitchConfig::default() });
        assert_eq!((profile.occupied(64), profile.occupied(256), profile.occupied(1048)), (256, 256, 1280));
    }
}
