//! What is due, when and where.

use std::fmt;

use nic::Instant;

/// What kind of thing is due. At one instant, lower kinds come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Something planned by the user or the fabric itself: a failure, a sample, a reconvergence.
    Control = 0,
    /// Flows begin.
    Start = 1,
    /// A packet has arrived at a port.
    Arrival = 2,
    /// A PFC frame takes effect at a port.
    Pause = 3,
    /// A pause of a port may have run out.
    PauseEnd = 4,
    /// A pause held against a port's peer is to be renewed.
    PauseRefresh = 5,
    /// A host's timer is due.
    Timer = 6,
    /// A port may send the next packet.
    Wake = 7,
    /// A switch checks its queues for stalls.
    Watchdog = 8,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Control,
        Self::Start,
        Self::Arrival,
        Self::Pause,
        Self::PauseEnd,
        Self::PauseRefresh,
        Self::Timer,
        Self::Wake,
        Self::Watchdog,
    ];
}

/// An event. Events are ordered by time, then by kind, then by place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    time: u64,
    target: u32,
    argument: u32,
}

impl Event {
    const PLACE_BITS: u32 = 28;

    /// How many places (ports, hosts, ...) a kind of event may have.
    pub const PLACES: u32 = 1 << Self::PLACE_BITS;

    /// An event due at `time` at `place`, which is below [`Self::PLACES`]; what `argument` is depends
    /// on the kind.
    pub const fn new(time: Instant, kind: Kind, place: u32, argument: u32) -> Self {
        debug_assert!(place < Self::PLACES);
        Self { time: time.as_picos(), target: (kind as u32) << Self::PLACE_BITS | place, argument }
    }

    /// When it is due.
    pub const fn time(self) -> Instant {
        Instant::from_picos(self.time)
    }

    /// When it is due, in picoseconds.
    pub const fn picos(self) -> u64 {
        self.time
    }

    /// What is due.
    pub const fn kind(self) -> Kind {
        Kind::ALL[(self.target >> Self::PLACE_BITS) as usize]
    }

    /// Where: a port, a host, a switch or the number of a plan.
    pub const fn place(self) -> u32 {
        self.target & (Self::PLACES - 1)
    }

    /// A packet's handle, for arrivals.
    pub const fn argument(self) -> u32 {
        self.argument
    }

    /// A number that orders events as they are to be carried out.
    pub const fn key(self) -> u128 {
        (self.time as u128) << 64 | (self.target as u128) << 32 | self.argument as u128
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({}, {}) at {} ps", self.kind(), self.place(), self.argument, self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_kind_and_place() {
        let at = Instant::from_picos;
        let order = [
            Event::new(at(1), Kind::Watchdog, 9, 9),
            Event::new(at(2), Kind::Control, 9, 9),
            Event::new(at(2), Kind::Arrival, 3, 9),
            Event::new(at(2), Kind::Arrival, 4, 0),
            Event::new(at(2), Kind::Wake, 0, 0),
        ];
        assert!(order.is_sorted());
        assert_eq!(size_of::<Event>(), 16);
        for kind in Kind::ALL {
            let event = Event::new(at(5), kind, Event::PLACES - 1, 7);
            assert_eq!((event.kind(), event.place(), event.argument()), (kind, Event::PLACES - 1, 7));
        }
    }
}
