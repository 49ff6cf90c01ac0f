//! Who listens for what.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use wire::cm::{IpCmHeader, ServiceId};

use super::{CmError, ListenerId};
use crate::table::Table;

/// What a program listens for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listen {
    /// The service.
    pub service: ServiceId,
    /// Whether it is a datagram service, which answers SIDR REQ, or one of connections.
    pub datagram: bool,
    /// The address that must be asked for.
    pub address: ListenAddress,
}

/// The address that a listener wants to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListenAddress {
    /// This one.
    Ip(IpAddr),
    /// Any of IPv4.
    AnyV4,
    /// Any of IPv6.
    AnyV6,
    /// Any, or none at all.
    Any,
}

impl ListenAddress {
    /// The addresses that match a request, the closest first.
    pub fn matching(addresses: Option<IpCmHeader>) -> impl Iterator<Item = Self> {
        let destination = addresses.map(|addresses| addresses.destination);
        let family = destination.map(|address| if address.is_ipv4() { Self::AnyV4 } else { Self::AnyV6 });
        destination.map(Self::Ip).into_iter().chain(family).chain([Self::Any])
    }
}

/// All listeners.
#[derive(Debug)]
pub(super) struct Listeners {
    table: Table<Listener>,
    by_address: BTreeMap<Listen, ListenerId>,
}

/// A listener.
#[derive(Debug)]
struct Listener {
    listen: Listen,
    backlog: u32,
    pending: u32,
}

/// Unanswered requests of a listener that does not say how many it wants.
const DEFAULT_BACKLOG: u32 = 1024;

impl Listeners {
    /// At most `limit`.
    pub fn new(limit: u32) -> Self {
        Self { table: Table::with_limit(limit), by_address: BTreeMap::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Adds a listener with room for `backlog` unanswered requests; 0 is the default, which is also the
    /// most.
    pub fn insert(&mut self, listen: Listen, backlog: u32) -> Result<ListenerId, CmError> {
        if self.by_address.contains_key(&listen) {
            return Err(CmError::InUse);
        }
        let backlog = if backlog == 0 { DEFAULT_BACKLOG } else { backlog.min(DEFAULT_BACKLOG) };
        let listener = Listener { listen, backlog, pending: 0 };
        let id = self.table.insert(listener).map(ListenerId).map_err(|_| CmError::TooMany)?;
        self.by_address.insert(listen, id);
        Ok(id)
    }

    /// Removes a listener.
    pub fn remove(&mut self, id: ListenerId) -> Result<(), CmError> {
        let listener = self.table.remove(id.0).map_err(|_| CmError::UnknownId)?;
        self.by_address.remove(&listener.listen);
        Ok(())
    }

    /// What is listened for.
    pub fn get(&self, id: ListenerId) -> Option<Listen> {
        self.table.get(id.0).map(|listener| listener.listen)
    }

    /// Who takes a request.
    pub fn find(
        &self,
        service: ServiceId,
        datagram: bool,
        addresses: Option<IpCmHeader>,
    ) -> Option<ListenerId> {
        ListenAddress::matching(addresses)
            .find_map(|address| self.by_address.get(&Listen { service, datagram, address }))
            .copied()
    }

    /// Counts one more unanswered request; false if there is no room for it.
    pub fn admit(&mut self, id: ListenerId) -> bool {
        let Some(listener) = self.table.get_mut(id.0) else { return false };
        let has_room = listener.pending < listener.backlog;
        listener.pending += u32::from(has_room);
        has_room
    }

    /// Counts one less. The listener may be gone.
    pub fn answered(&mut self, id: ListenerId) {
        if let Some(listener) = self.table.get_mut(id.0) {
            listener.pending -= 1;
        }
    }
}
