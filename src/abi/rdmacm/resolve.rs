//! Where an id is, and where it goes to.

use std::{
    ffi::c_int,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use host::cm::PortError;
use libc::sockaddr;
use nic::cm::{Listen, ListenAddress, Path};
use nic::verbs::Mtu;
use wire::{Gid, cm::ServiceId};

use super::{
    address,
    device::CmDevice,
    id::{Id, Stage, State},
};
use crate::abi::{
    convert::{mtu_code, to_gid},
    errno::{Errno, zero_or_minus_one},
    object::Object,
    types::{cm::*, constants::IBV_RATE_40_GBPS, kernel::ibv_sa_path_rec},
};

/// `rdma_bind_addr(3)`.
///
/// # Safety
///
/// `id` is an id and `address` is valid.
pub(super) unsafe extern "C" fn bind_addr(id: *mut rdma_cm_id, address: *mut sockaddr) -> c_int {
    // SAFETY: the caller passes an id and an address.
    let (id, address) = unsafe { (Id::of(id), address::read(address)) };
    zero_or_minus_one(address.and_then(|address| bind(id, &mut id.state(), address)))
}

/// Gives an id an address and a port of ours. That of any address is bound to no device, so that requests for all come.
pub(super) fn bind(id: &Id, state: &mut State, address: SocketAddr) -> Result<(), Errno> {
    if !matches!(state.stage, Stage::Idle) {
        return Err(Errno::INVALID);
    }
    let device = CmDevice::get()?;
    let ip = address.ip();
    if !ip.is_unspecified() && gid_index(device, ip, scope(address)).is_none() {
        return Err(Errno(libc::EADDRNOTAVAIL));
    }
    let (listen, shared) = (listen_address(state, ip), state.options.reuse_address);
    let port = device.manager.reserve(id.port_space(), listen, address.port(), shared);
    let port = port.map_err(|error| match error {
        // Some address has it, but not this one.
        PortError::InUse if ip.is_unspecified() => Errno(libc::EADDRNOTAVAIL),
        error => error.into(),
    })?;
    state.local = Some(with_port(address, port.number()));
    state.port = Some(port);
    state.device = Some(device);
    state.stage = Stage::Bound;
    id.show_addresses(state);
    if !ip.is_unspecified() {
        id.show_device(device);
        id.show(|c| {
            c.route.addr.addr = rdma_addr_addr {
                ibaddr: rdma_ib_addr {
                    sgid: to_gid(Gid::from(ip)),
                    dgid: to_gid(Gid::UNSPECIFIED),
                    pkey: PKEY,
                },
            }
        });
    }
    Ok(())
}

/// The default partition, big-endian.
const PKEY: u16 = 0xffff;

/// `rdma_resolve_addr(3)`: here the system's routes tell at once, so that errors need no event.
///
/// # Safety
///
/// `id` is an id, `source` is valid or null and `destination` is valid.
pub(super) unsafe extern "C" fn resolve_addr(
    id: *mut rdma_cm_id,
    source: *mut sockaddr,
    destination: *mut sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    let resolve = || -> Result<(), Errno> {
        // SAFETY: the caller passes an id and addresses; the first may be null.
        let (id, source, destination) = unsafe {
            let source = (!source.is_null()).then(|| address::read(source)).transpose()?;
            (Id::of(id), source, address::read(destination)?)
        };
        resolve_address(id, &mut id.state(), source, destination)?;
        id.complete()
    };
    zero_or_minus_one(resolve())
}

fn resolve_address(
    id: &Id,
    state: &mut State,
    source: Option<SocketAddr>,
    destination: SocketAddr,
) -> Result<(), Errno> {
    if !matches!(state.stage, Stage::Idle | Stage::Bound) {
        return Err(Errno::INVALID);
    }
    let device = CmDevice::get()?;
    // What it is bound to counts, and of two wildcards neither says anything.
    let ours = [state.local, source].into_iter().flatten().find(|address| !address.ip().is_unspecified());
    let peer = SocketAddr::new(reachable(destination.ip()), destination.port());
    let peer = if peer.ip() == destination.ip() { destination } else { peer };
    let (path, found) = find_path(device, ours, peer)?;
    let port = state.local.or(source).map_or(0, |address| address.port());
    if matches!(state.stage, Stage::Idle) {
        bind(id, state, ours.map_or(SocketAddr::new(found, port), |ours| with_port(ours, port)))?;
    } else {
        state.local = Some(ours.map_or(SocketAddr::new(found, port), |ours| with_port(ours, port)));
    }
    state.peer = Some(peer);
    state.stage = Stage::Resolved(path);
    id.show_device(device);
    id.show_addresses(state);
    id.show_gids(&path);
    id.tell_plainly(RDMA_CM_EVENT_ADDR_RESOLVED);
    Ok(())
}

/// The way to a peer, and our address on it.
fn find_path(device: &CmDevice, ours: Option<SocketAddr>, peer: SocketAddr) -> Result<(Path, IpAddr), Errno> {
    let ours_ip = ours.map(|address| address.ip());
    if let Some(source) = ours_ip.filter(|_| peer.ip().is_multicast()) {
        // A group is reached by the interface that has our address, whatever the routes say.
        let index = gid_index(device, source, scope(peer)).ok_or(Errno(libc::EADDRNOTAVAIL))?;
        let path = Path {
            source: Gid::from(source),
            destination: Gid::from(peer.ip()),
            source_gid_index: index,
            mtu: Mtu::Mtu1024,
            ..Path::default()
        };
        return if source.is_ipv4() == peer.is_ipv4() { Ok((path, source)) } else { Err(Errno::INVALID) };
    }
    let route = device.manager.resolve_route(peer.ip(), scope(peer), ours_ip)?;
    Ok((route.path, route.source))
}

/// Where the wildcard leads as a destination: to this machine.
fn reachable(destination: IpAddr) -> IpAddr {
    match destination {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        destination => destination,
    }
}

/// `rdma_resolve_route(3)`.
///
/// # Safety
///
/// `id` is an id.
pub(super) unsafe extern "C" fn resolve_route(id: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
    // SAFETY: the caller passes an id.
    let id = unsafe { Id::of(id) };
    let resolve = || -> Result<(), Errno> {
        let mut state = id.state();
        let Stage::Resolved(path) = state.stage else { return Err(Errno::INVALID) };
        let path = state.options.route(path);
        state.stage = Stage::Routed(path);
        show_path(id, &path);
        id.tell_plainly(RDMA_CM_EVENT_ROUTE_RESOLVED);
        drop(state);
        id.complete()
    };
    zero_or_minus_one(resolve())
}

/// Shows the way to the peer as a path record.
pub(super) fn show_path(id: &Id, path: &Path) {
    /// Values are meant exactly (IBTA vol. 1, 15.2.5.16).
    const EXACTLY: u8 = 2;
    let record = ibv_sa_path_rec {
        dgid: to_gid(path.destination),
        sgid: to_gid(path.source),
        dlid: 0,
        slid: 0,
        raw_traffic: 0,
        flow_label: path.flow_label.to_be(),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        reversible: 1,
        numb_path: 1,
        pkey: path.pkey.to_be(),
        sl: path.service_level,
        mtu_selector: EXACTLY,
        mtu: mtu_code(path.mtu) as u8,
        rate_selector: EXACTLY,
        rate: IBV_RATE_40_GBPS as u8, // which is what the port says
        packet_life_time_selector: EXACTLY,
        packet_life_time: path.packet_life_time,
        preference: 0,
    };
    let at = id.path_record.get();
    // SAFETY: the record lies in the id; the program reads it only after the call or event that filled it.
    unsafe { *at = record };
    id.show(|c| {
        c.route.path_rec = at;
        c.route.num_paths = 1;
    });
}

/// `rdma_listen(3)`.
///
/// # Safety
///
/// `id` is an id.
pub(super) unsafe extern "C" fn listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    // SAFETY: the caller passes an id.
    let id = unsafe { Id::of(id) };
    zero_or_minus_one(start_listening(id, &mut id.state(), backlog))
}

fn start_listening(id: &Id, state: &mut State, backlog: c_int) -> Result<(), Errno> {
    if matches!(state.stage, Stage::Idle) {
        bind(id, state, (Ipv4Addr::UNSPECIFIED, 0).into())?;
    }
    let (Stage::Bound, Some(device), Some(local)) = (state.stage, state.device, state.local) else {
        return Err(Errno::INVALID);
    };
    let listen = Listen {
        service: ServiceId::of_port(id.port_space(), local.port()),
        datagram: id.is_datagram(),
        address: listen_address(state, local.ip()),
    };
    let backlog = u32::try_from(backlog).unwrap_or(0);
    let listener = device.manager.listen(listen, backlog, device.reporter(id.token))?;
    state.stage = Stage::Listening(listener);
    Ok(())
}

/// Which addresses an id that is bound to `ip` stands for.
fn listen_address(state: &State, ip: IpAddr) -> ListenAddress {
    match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => ListenAddress::AnyV4,
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) if state.options.one_family => ListenAddress::AnyV6,
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => ListenAddress::Any,
        ip => ListenAddress::Ip(ip),
    }
}

/// The entry of the GID table that an address of ours has; on interface `scope`, unless that is 0.
pub(super) fn gid_index(device: &CmDevice, ip: IpAddr, scope: u32) -> Option<u8> {
    let gid = Gid::from(ip);
    (0..host::GID_TABLE_LENGTH as u8).find(|&index| {
        let entry = device.adapter().gid(index);
        entry.is_some_and(|entry| entry.gid == gid && (scope == 0 || entry.interface_index == scope))
    })
}

/// The interface that a link-local address is meant on; 0 if that is not said.
fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}
