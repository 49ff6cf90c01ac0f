//! Socket addresses: between C's and Rust's.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{
    AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t,
};

use crate::abi::{errno::Errno, types::cm::rdma_cm_id};

/// Reads an address of IPv4 or IPv6.
///
/// # Safety
///
/// `address` is null, or has as many bytes as its family says.
pub(in crate::abi) unsafe fn read(address: *const sockaddr) -> Result<SocketAddr, Errno> {
    if address.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller passes an address that is as long as its family says; it may be unaligned.
    unsafe {
        match i32::from((&raw const (*address).sa_family).read_unaligned()) {
            AF_INET => Ok(from_v4(&address.cast::<sockaddr_in>().read_unaligned())),
            AF_INET6 => Ok(from_v6(&address.cast::<sockaddr_in6>().read_unaligned())),
            _ => Err(Errno::INVALID),
        }
    }
}

fn from_v4(address: &sockaddr_in) -> SocketAddr {
    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
    SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into()
}

fn from_v6(address: &sockaddr_in6) -> SocketAddr {
    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
    let (port, flow) = (u16::from_be(address.sin6_port), u32::from_be(address.sin6_flowinfo));
    SocketAddrV6::new(ip, port, flow, address.sin6_scope_id).into()
}

/// An address as C has it, in room for any.
pub(in crate::abi) fn storage(address: SocketAddr) -> sockaddr_storage {
    // SAFETY: the structure is numbers, of which zero is a valid value.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let at = &raw mut storage;
    match address {
        SocketAddr::V4(v4) => {
            let address = sockaddr_in {
                sin_family: AF_INET as sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for any address.
            unsafe { at.cast::<sockaddr_in>().write(address) };
        }
        SocketAddr::V6(v6) => {
            let address = sockaddr_in6 {
                sin6_family: AF_INET6 as sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo().to_be(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { at.cast::<sockaddr_in6>().write(address) };
        }
    }
    storage
}

/// How long C's form of an address is.
pub(in crate::abi) fn length(address: SocketAddr) -> socklen_t {
    let length = if address.is_ipv4() { size_of::<sockaddr_in>() } else { size_of::<sockaddr_in6>() };
    length as socklen_t
}

/// `rdma_get_src_port(3)`: big-endian.
///
/// # Safety
///
/// `id` is an id.
pub(super) unsafe extern "C" fn src_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: the caller passes an id, in which the program may have written an address.
    unsafe { port(&raw const (*id).route.addr.src_storage) }
}

/// `rdma_get_dst_port(3)`: big-endian.
///
/// # Safety
///
/// `id` is an id.
pub(super) unsafe extern "C" fn dst_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: the caller passes an id, in which the program may have written an address.
    unsafe { port(&raw const (*id).route.addr.dst_storage) }
}

/// The port of an address, big-endian; 0 if it has none.
///
/// # Safety
///
/// `storage` is valid.
unsafe fn port(storage: *const sockaddr_storage) -> u16 {
    // SAFETY: the storage is large enough for any address.
    unsafe { read(storage.cast()) }.map_or(0, |address| address.port().to_be())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_there_and_back() {
        for text in ["10.1.2.3:4791", "[fd00::1:2]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let storage = storage(address);
            // SAFETY: the storage holds an address.
            assert_eq!(unsafe { read((&raw const storage).cast()) }, Ok(address));
        }
        let scoped = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 2, 3));
        let storage = storage(scoped);
        // SAFETY: the storage holds an address.
        assert_eq!(unsafe { read((&raw const storage).cast()) }, Ok(scoped));
    }

    #[test]
    fn other_families_are_refused() {
        let mut storage = storage("10.1.2.3:4791".parse().unwrap());
        storage.ss_family = libc::AF_UNIX as sa_family_t;
        // SAFETY: the storage is large enough for any address.
        assert_eq!(unsafe { read((&raw const storage).cast()) }, Err(Errno::INVALID));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(std::ptr::null()) }, Err(Errno::INVALID));
    }
}
