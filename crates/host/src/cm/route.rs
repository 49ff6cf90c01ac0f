//! The way to an address: what `rdma_resolve_addr` and `rdma_resolve_route` find out.

use std::io;
use std::net::IpAddr;

use nic::cm::Path;
use nic::verbs::{GidEntry, Mtu};
use wire::Gid;

use crate::gids::GID_TABLE_LENGTH;
use crate::link::OVERHEAD;

/// How a destination is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedRoute {
    /// The way: GIDs, source index and path MTU filled in, the rest by default.
    pub path: Path,
    /// The source address.
    pub source: IpAddr,
    /// The interface that the source address belongs to, as the GID table has it.
    pub interface: u32,
}

/// Why an address cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The system knows no way.
    #[error("there is no route to {destination}: {error}")]
    NoRoute {
        /// Where to.
        destination: IpAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The source is none of the adapter's addresses.
    #[error("{0} is no address of an interface that is up")]
    NoSuchSource(IpAddr),
    /// One address is IPv4, the other IPv6.
    #[error("source and destination are of different families")]
    FamilyMismatch,
}

/// Finds the way to `destination`; `interface` (0: any) is the scope of link-local addresses, and `source`
/// is taken if it is given and not the wildcard.
pub(super) fn resolve(
    destination: IpAddr,
    interface: u32,
    source: Option<IpAddr>,
    entry: impl Fn(u8) -> Option<GidEntry>,
) -> Result<ResolvedRoute, RouteError> {
    let source = source.filter(|source| !source.is_unspecified());
    if source.is_some_and(|source| source.is_ipv4() != destination.is_ipv4()) {
        return Err(RouteError::FamilyMismatch);
    }
    let route =
        io_route(destination, interface).map_err(|error| RouteError::NoRoute { destination, error })?;
    let source = source.unwrap_or(route.source);
    let gid = Gid::from(source);
    let entries = || {
        (0..GID_TABLE_LENGTH as u8)
            .filter_map(|index| Some((index, entry(index)?)))
            .filter(|(_, entry)| entry.gid == gid)
    };
    // The same link-local address may stand on many interfaces; another one only on its own, which for a
    // destination on this machine is not the route's.
    let wanted = if interface == 0 { route.interface } else { interface };
    let found = entries().find(|(_, entry)| entry.interface_index == wanted).or_else(|| entries().next());
    let (index, entry) = found.ok_or(RouteError::NoSuchSource(source))?;
    let path = Path {
        source: gid,
        destination: Gid::from(destination),
        source_gid_index: index,
        mtu: Mtu::fitting(route.mtu.saturating_sub(OVERHEAD)),
        ..Path::default()
    };
    Ok(ResolvedRoute { path, source, interface: entry.interface_index })
}

fn io_route(destination: IpAddr, interface: u32) -> io::Result<::io::interfaces::Route> {
    ::io::interfaces::route_to(destination, (interface != 0).then_some(interface))
}
