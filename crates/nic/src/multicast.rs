//! Multicast groups: which queue pairs take a group's datagrams (IBTA 10.5.2, 11.3).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use wire::{Gid, Qpn};

use crate::verbs::MulticastError;

/// All groups with members on an adapter.
#[derive(Debug)]
pub(crate) struct MulticastTable {
    groups: BTreeMap<Gid, Vec<Qpn>>,
    max_groups: usize,
    max_members: usize,
}

impl MulticastTable {
    /// At most so many groups of at most so many members.
    pub fn new(max_groups: u32, max_members: u32) -> Self {
        Self { groups: BTreeMap::new(), max_groups: max_groups as usize, max_members: max_members as usize }
    }

    /// A group's members in the order they joined.
    pub fn members(&self, group: Gid) -> &[Qpn] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Whether a queue pair is a member.
    pub fn contains(&self, group: Gid, qpn: Qpn) -> bool {
        self.members(group).contains(&qpn)
    }

    /// Adds a queue pair that is no member yet. True if it is the group's first.
    pub fn attach(&mut self, group: Gid, qpn: Qpn) -> Result<bool, MulticastError> {
        if !group.is_multicast() {
            return Err(MulticastError::NotMulticast);
        }
        let first = self.members(group).is_empty();
        if first && self.groups.len() >= self.max_groups || self.members(group).len() >= self.max_members {
            return Err(MulticastError::TooMany);
        }
        self.groups.entry(group).or_default().push(qpn);
        Ok(first)
    }

    /// Removes a member. True if it was the group's last.
    pub fn detach(&mut self, group: Gid, qpn: Qpn) -> Result<bool, MulticastError> {
        let members = self.groups.get_mut(&group).ok_or(MulticastError::NotAttached)?;
        let at = members.iter().position(|&member| member == qpn).ok_or(MulticastError::NotAttached)?;
        members.remove(at);
        if members.is_empty() {
            self.groups.remove(&group);
            return Ok(true);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    const FIRST: Qpn = Qpn::new(8);
    const SECOND: Qpn = Qpn::new(9);

    fn group(last: u8) -> Gid {
        Gid::from(Ipv4Addr::new(239, 0, 0, last))
    }

    #[test]
    fn the_first_and_the_last_member_are_told() {
        let mut table = MulticastTable::new(1, 2);
        assert_eq!(table.attach(group(1), FIRST), Ok(true));
        assert_eq!(table.attach(group(1), SECOND), Ok(false));
        assert_eq!(table.members(group(1)), [FIRST, SECOND]);
        assert_eq!(table.detach(group(1), FIRST), Ok(false));
        assert_eq!(table.detach(group(1), FIRST), Err(MulticastError::NotAttached));
        assert_eq!(table.detach(group(1), SECOND), Ok(true));
        assert_eq!(table.detach(group(1), SECOND), Err(MulticastError::NotAttached));
    }

    #[test]
    fn the_limits_hold() {
        let mut table = MulticastTable::new(1, 1);
        assert_eq!(table.attach(group(1), FIRST), Ok(true));
        assert_eq!(table.attach(group(1), SECOND), Err(MulticastError::TooMany));
        assert_eq!(table.attach(group(2), FIRST), Err(MulticastError::TooMany));
    }

    #[test]
    fn only_multicast_addresses_are_groups() {
        let mut table = MulticastTable::new(1, 1);
        let unicast = Gid::from(Ipv4Addr::LOCALHOST);
        assert_eq!(table.attach(unicast, FIRST), Err(MulticastError::NotMulticast));
    }
}
