//! Names to addresses, by way of the system's resolver.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint},
    net::SocketAddr,
    ptr::{null, null_mut},
};

use libc::{addrinfo, sockaddr_storage};

use super::address;
use crate::abi::{
    errno::{Errno, zero_or_minus_one},
    layout::Zeroed,
    object::{Object, Visible},
    types::{cm::*, constants::*},
};

/// A result, with all that it points to.
#[repr(C)]
struct Resolved {
    c: Visible<rdma_addrinfo>,
    source: Visible<sockaddr_storage>,
    destination: Visible<sockaddr_storage>,
    canonical_name: Option<CString>,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Resolved {
    type C = rdma_addrinfo;
}

/// `rdma_getaddrinfo(3)`: returns 0, or a code for `gai_strerror(3)`, or -1 with `errno`.
///
/// # Safety
///
/// `node` and `service` are C strings or null, `hints` is valid or null, and `result` is valid.
pub(super) unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    result: *mut *mut rdma_addrinfo,
) -> c_int {
    if node.is_null() && service.is_null() && hints.is_null() {
        return zero_or_minus_one(Err(Errno::INVALID));
    }
    // SAFETY: the caller passes hints, or null.
    let hints = unsafe { hints.as_ref() }.copied().unwrap_or_else(rdma_addrinfo::zeroed);
    let wanted = Wanted::from(&hints);
    let named = match node.is_null() && service.is_null() {
        true => Ok(None),
        // SAFETY: the caller passes C strings, or null.
        false => unsafe { look_up(node, service, &wanted) }.map(Some),
    };
    match named {
        Err(Failure::Resolver(code)) => code,
        Err(Failure::System(error)) => zero_or_minus_one(Err(error)),
        Ok(named) => {
            // SAFETY: addresses in the hints are as long as their families say, or null.
            let (source, destination) = unsafe {
                let hinted = |address: *mut libc::sockaddr| address::read(address).ok();
                (hinted(hints.ai_src_addr), hinted(hints.ai_dst_addr))
            };
            // SAFETY: the caller passes a valid place.
            unsafe { *result = answer(&wanted, named, source, destination) };
            0
        }
    }
}

/// What is wanted, where the hints leave something open.
struct Wanted {
    flags: c_int,
    family: c_int,
    qp_type: c_uint,
    port_space: c_uint,
}

impl From<&rdma_addrinfo> for Wanted {
    fn from(hints: &rdma_addrinfo) -> Self {
        let (said_type, said_space) = (hints.ai_qp_type.cast_unsigned(), hints.ai_port_space.cast_unsigned());
        let is_datagram = said_type == IBV_QPT_UD || matches!(said_space, RDMA_PS_UDP | RDMA_PS_IPOIB);
        let (qp_type, port_space) =
            if is_datagram { (IBV_QPT_UD, RDMA_PS_UDP) } else { (IBV_QPT_RC, RDMA_PS_TCP) };
        let or = |said: c_uint, otherwise| if said == 0 { otherwise } else { said };
        Self {
            flags: hints.ai_flags,
            family: hints.ai_family,
            qp_type: or(said_type, qp_type),
            port_space: or(said_space, port_space),
        }
    }
}

impl Wanted {
    fn is_passive(&self) -> bool {
        self.flags & RAI_PASSIVE != 0
    }

    /// The same for the system's resolver.
    fn for_resolver(&self) -> addrinfo {
        // SAFETY: numbers and null pointers may be zero.
        let mut hints: addrinfo = unsafe { std::mem::zeroed() };
        hints.ai_flags = [(RAI_PASSIVE, libc::AI_PASSIVE), (RAI_NUMERICHOST, libc::AI_NUMERICHOST)]
            .into_iter()
            .filter_map(|(flag, resolvers)| (self.flags & flag != 0).then_some(resolvers))
            .fold(0, |flags, flag| flags | flag);
        if self.flags & RAI_FAMILY != 0 {
            hints.ai_family = self.family;
        }
        hints.ai_socktype = if self.qp_type == IBV_QPT_UD { libc::SOCK_DGRAM } else { libc::SOCK_STREAM };
        hints
    }
}

/// Why there is no address.
enum Failure {
    /// A code for `gai_strerror(3)`.
    Resolver(c_int),
    System(Errno),
}

/// An address, and the name that belongs to it.
type Named = (SocketAddr, Option<CString>);

/// Asks the system's resolver.
///
/// # Safety
///
/// `node` and `service` are C strings or null.
unsafe fn look_up(node: *const c_char, service: *const c_char, wanted: &Wanted) -> Result<Named, Failure> {
    let mut list: *mut addrinfo = null_mut();
    // SAFETY: the caller passes C strings or null; the list is a valid place.
    let code = unsafe { libc::getaddrinfo(node, service, &wanted.for_resolver(), &mut list) };
    if code != 0 {
        return Err(Failure::Resolver(code));
    }
    // SAFETY: a list was made, whose addresses are as long as their families say.
    let named = unsafe {
        let first = &*list;
        let name = (!first.ai_canonname.is_null()).then(|| CStr::from_ptr(first.ai_canonname).to_owned());
        address::read(first.ai_addr).map(|address| (address, name)).map_err(Failure::System)
    };
    // SAFETY: the list was made by the resolver, and nothing refers to it any more.
    unsafe { libc::freeaddrinfo(list) };
    named
}

fn answer(
    wanted: &Wanted,
    named: Option<Named>,
    hinted_source: Option<SocketAddr>,
    hinted_destination: Option<SocketAddr>,
) -> *mut rdma_addrinfo {
    let (address, canonical_name) = named.map_or((None, None), |(address, name)| (Some(address), name));
    let (source, destination) = match address {
        Some(_) if wanted.is_passive() => (address, None),
        Some(_) => (hinted_source, address),
        None => (hinted_source, hinted_destination),
    };
    let family = source
        .or(destination)
        .map_or(wanted.family, |address| if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 });
    let c = rdma_addrinfo {
        ai_flags: wanted.flags,
        ai_family: family,
        ai_qp_type: wanted.qp_type.cast_signed(),
        ai_port_space: wanted.port_space.cast_signed(),
        ai_src_len: source.map_or(0, address::length),
        ai_dst_len: destination.map_or(0, address::length),
        ..rdma_addrinfo::zeroed()
    };
    let storage = |address: Option<SocketAddr>| {
        // SAFETY: an address structure is numbers, of which zero is a valid value.
        let none = || unsafe { std::mem::zeroed() };
        Visible::new(address.map_or_else(none, address::storage))
    };
    let resolved = Resolved {
        c: Visible::new(c),
        source: storage(source),
        destination: storage(destination),
        canonical_name,
    }
    .hand_out();
    // SAFETY: it was just made; the name is only read.
    unsafe {
        let object = Resolved::of(resolved);
        let name = object.canonical_name.as_deref().map_or(null(), CStr::as_ptr).cast_mut();
        if source.is_some() {
            (*resolved).ai_src_addr = object.source.get().cast();
        }
        if destination.is_some() {
            (*resolved).ai_dst_addr = object.destination.get().cast();
        }
        let its_name = if wanted.is_passive() {
            &raw mut (*resolved).ai_src_canonname
        } else {
            &raw mut (*resolved).ai_dst_canonname
        };
        *its_name = name;
    }
    resolved
}

/// `rdma_freeaddrinfo(3)`.
///
/// # Safety
///
/// `list` came from [`getaddrinfo`], or is null.
pub(super) unsafe extern "C" fn freeaddrinfo(list: *mut rdma_addrinfo) {
    let mut next = list;
    while !next.is_null() {
        let this = next;
        // SAFETY: the caller passes what `getaddrinfo` made, and is done with it.
        unsafe {
            next = (*this).ai_next;
            Resolved::take_back(this);
        }
    }
}
