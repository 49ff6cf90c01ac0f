//! The adapter's one port: its state, its GIDs and its partition keys.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::verbs::{AsyncEvent, Event, GidEntry, Mtu, PortState};

/// The only port's number.
pub(crate) const PORT: u8 = 1;

/// The partition key table: the default partition, with full membership (IBTA 10.9.2).
const PKEYS: [u16; 1] = [0xFFFF];

/// State, GID table and partition keys of the port.
#[derive(Debug, Default)]
pub(crate) struct Port {
    state: PortState,
    mtu: Mtu,
    gids: Vec<Option<GidEntry>>,
}

impl Port {
    /// Whether it is up.
    pub fn state(&self) -> PortState {
        self.state
    }

    /// The largest path MTU that its link carries.
    pub fn mtu(&self) -> Mtu {
        self.mtu
    }

    /// Sets state and MTU; raises an event if the state differs.
    pub fn set(&mut self, state: PortState, mtu: Mtu, events: &mut VecDeque<Event>) {
        self.mtu = mtu;
        if self.state == state {
            return;
        }
        self.state = state;
        events.push_back(Event::Async(match state {
            PortState::Active => AsyncEvent::PortActive,
            PortState::Down => AsyncEvent::PortError,
        }));
    }

    /// An entry of the GID table.
    pub fn gid(&self, index: u8) -> Option<GidEntry> {
        self.gids.get(usize::from(index)).copied().flatten()
    }

    /// Sets or clears an entry; raises an event if it differs. Connections and address handles that use
    /// a cleared entry stay, and cannot send until it is set again.
    pub fn set_gid(&mut self, index: u8, entry: Option<GidEntry>, events: &mut VecDeque<Event>) {
        if self.gid(index) == entry {
            return;
        }
        let index = usize::from(index);
        if self.gids.len() <= index {
            self.gids.resize(index + 1, None);
        }
        self.gids[index] = entry;
        events.push_back(Event::Async(AsyncEvent::GidChange));
    }

    /// An entry of the partition key table.
    pub fn pkey(&self, index: u16) -> Option<u16> {
        PKEYS.get(usize::from(index)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::GidType;
    use wire::Gid;

    fn entry(last: u8) -> GidEntry {
        let mut gid = Gid::default();
        gid.0[15] = last;
        GidEntry { gid, gid_type: GidType::RoceV2, interface_index: 1 }
    }

    #[test]
    fn only_changes_raise_events() {
        let (mut port, mut events) = (Port::default(), VecDeque::new());
        port.set(PortState::Down, Mtu::Mtu4096, &mut events);
        assert_eq!((port.mtu(), events.len()), (Mtu::Mtu4096, 0));
        port.set(PortState::Active, Mtu::Mtu4096, &mut events);
        assert_eq!(events.pop_front(), Some(Event::Async(AsyncEvent::PortActive)));
        port.set(PortState::Down, Mtu::Mtu4096, &mut events);
        assert_eq!(events.pop_front(), Some(Event::Async(AsyncEvent::PortError)));

        port.set_gid(5, None, &mut events);
        assert_eq!(events.pop_front(), None);
        port.set_gid(5, Some(entry(1)), &mut events);
        assert_eq!(events.pop_front(), Some(Event::Async(AsyncEvent::GidChange)));
        port.set_gid(5, Some(entry(1)), &mut events);
        assert_eq!(events.pop_front(), None);
        port.set_gid(5, None, &mut events);
        assert_eq!(events.pop_front(), Some(Event::Async(AsyncEvent::GidChange)));
        assert_eq!(port.gid(5), None);
    }

    #[test]
    fn there_is_one_partition() {
        let port = Port::default();
        assert_eq!((port.pkey(0), port.pkey(1)), (Some(0xFFFF), None));
    }
}
