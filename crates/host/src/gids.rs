//! The machine's addresses as the adapter's GID table.
//!
//! All interfaces lie behind the one port. The order is that of usefulness, since programs take the
//! first entry of a kind: routable addresses before link-local ones, IPv4 before IPv6, and the loopback
//! interface's last, so that a machine without any network has those. An entry keeps its index for as
//! long as its address exists; the place of one that vanished is taken by the next that comes.

use std::net::IpAddr;

use io::interfaces::{Interface, InterfaceAddress};
use nic::verbs::{GidEntry, GidType};
use wire::Gid;

/// Entries of the table.
pub const GID_TABLE_LENGTH: usize = 64;

/// The GID table, and what the link has to know of the interfaces behind it.
#[derive(Debug, Default)]
pub(crate) struct Gids {
    entries: Vec<Option<GidEntry>>,
    /// Bytes of the largest IP packet that all interfaces carry, loopback aside if there are others.
    mtu: u32,
}

impl Gids {
    /// Reads the machine's addresses; returns the entries that changed.
    pub(crate) fn refresh(&mut self) -> std::io::Result<Vec<(u8, Option<GidEntry>)>> {
        let interfaces = io::interfaces::interfaces()?;
        self.mtu = smallest_mtu(&interfaces);
        Ok(self.update(&ranked(&interfaces)))
    }

    /// Bytes of the largest IP packet that all interfaces carry, loopback aside if there are others.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The interface of an entry; 0 if there is none.
    pub(crate) fn interface(&self, index: u8) -> u32 {
        self.entries.get(usize::from(index)).copied().flatten().map_or(0, |entry| entry.interface_index)
    }

    /// Every interface that has an entry, once.
    pub(crate) fn interfaces(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.entries.iter().flatten().map(|entry| entry.interface_index).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The entry of an address on an interface; for an address that means the same on all of them, any
    /// interface's.
    pub(crate) fn index_of(&self, gid: Gid, interface: u32) -> Option<u8> {
        let place = |exact: bool| {
            self.entries.iter().position(|entry| {
                entry.is_some_and(|entry| entry.gid == gid && (!exact || entry.interface_index == interface))
            })
        };
        let index = if gid.is_link_local() { place(true) } else { place(true).or_else(|| place(false)) };
        index.map(|index| index as u8)
    }

    /// Whether an address is one of this machine's.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        let gid = Gid::from(address);
        address.is_loopback() || self.entries.iter().flatten().any(|entry| entry.gid == gid)
    }

    fn update(&mut self, wanted: &[GidEntry]) -> Vec<(u8, Option<GidEntry>)> {
        let before = self.entries.clone();
        for entry in &mut self.entries {
            *entry = entry.filter(|entry| wanted.contains(entry));
        }
        for &entry in wanted {
            if self.entries.contains(&Some(entry)) {
                continue;
            }
            match self.entries.iter().position(Option::is_none) {
                Some(place) => self.entries[place] = Some(entry),
                None if self.entries.len() < GID_TABLE_LENGTH => self.entries.push(Some(entry)),
                None => break,
            }
        }
        let old = |index: usize| before.get(index).copied().flatten();
        let changed = self.entries.iter().enumerate().filter(|&(index, &entry)| entry != old(index));
        changed.map(|(index, &entry)| (index as u8, entry)).collect()
    }
}

/// The addresses worth an entry, the most useful first.
fn ranked(interfaces: &[Interface]) -> Vec<GidEntry> {
    let mut all: Vec<((u8, u32), GidEntry)> = Vec::new();
    for interface in interfaces.iter().filter(|interface| interface.up) {
        for address in interface.addresses.iter().filter(|address| !address.tentative) {
            let entry = GidEntry {
                gid: Gid::from(address.address),
                gid_type: GidType::RoceV2,
                interface_index: interface.index,
            };
            all.push(((rank(interface, address), interface.index), entry));
        }
    }
    all.sort_by_key(|&(rank, _)| rank);
    all.into_iter().map(|(_, entry)| entry).collect()
}

/// The smallest MTU of the interfaces to other machines; of loopback, if there is no other.
fn smallest_mtu(interfaces: &[Interface]) -> u32 {
    let usable = |interface: &&Interface| interface.up && !interface.addresses.is_empty();
    let mtu_of = |loopback: bool| {
        let kind = interfaces.iter().filter(usable).filter(|interface| interface.loopback == loopback);
        kind.map(|interface| interface.mtu).min()
    };
    mtu_of(false).or_else(|| mtu_of(true)).unwrap_or(0)
}

fn rank(interface: &Interface, address: &InterfaceAddress) -> u8 {
    let kind = match address.address {
        IpAddr::V4(ip) if ip.is_link_local() => 2,
        IpAddr::V4(_) => 0,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 3,
        IpAddr::V6(_) => 1,
    };
    if interface.loopback { kind + 4 } else { kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(address: &str) -> GidEntry {
        let address: IpAddr = address.parse().unwrap();
        GidEntry { gid: Gid::from(address), gid_type: GidType::RoceV2, interface_index: 1 }
    }

    #[test]
    fn entries_keep_their_index() {
        let (a, b, c) = (entry("10.0.0.1"), entry("10.0.0.2"), entry("fd00::3"));
        let mut gids = Gids::default();
        assert_eq!(gids.update(&[a, b]), [(0, Some(a)), (1, Some(b))]);
        assert_eq!(gids.update(&[b]), [(0, None)]);
        assert_eq!(gids.update(&[c, b]), [(0, Some(c))]);
        assert_eq!(gids.update(&[c, b]), []);
    }

    #[test]
    fn the_table_is_bounded() {
        let many: Vec<GidEntry> = (0..100).map(|i| entry(&format!("10.0.0.{i}"))).collect();
        let mut gids = Gids::default();
        assert_eq!(gids.update(&many).len(), GID_TABLE_LENGTH);
    }

    #[test]
    fn this_machine_has_a_loopback_entry() {
        let mut gids = Gids::default();
        gids.refresh().unwrap();
        assert!(gids.is_ours("127.0.0.1".parse().unwrap()));
        assert!(gids.entries.contains(&Some(GidEntry { ..entry("127.0.0.1") })));
    }
}
