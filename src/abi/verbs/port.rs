//! The port: its attributes, its GIDs and its partition key.

use std::{
    ffi::{c_int, c_uint},
    mem::offset_of,
};

use nic::verbs::{AddressVector, GidEntry, GidType};

use super::context::{Context, ContextRef};
use crate::abi::{
    convert::{port_attr, to_gid},
    errno::{Errno, status, zero_or_minus_one},
    output::write_prefix,
    types::{
        constants::*,
        context::ibv_context,
        device::{ibv_gid, ibv_gid_entry, ibv_port_attr},
    },
};

/// The number of the only port.
const PORT: u32 = 1;

/// Entries of the GID table.
pub(super) const GIDS: u32 = host::GID_TABLE_LENGTH as u32;

/// The only partition key: full member of the default partition, in host order.
const PKEY: u16 = 0xffff;

/// `ibv_query_port(3)`, as `verbs.h` calls it.
///
/// # Safety
///
/// `context` is an open device and `attr` has room for `size` bytes.
pub(super) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    if u32::from(port) != PORT {
        return libc::EINVAL;
    }
    // SAFETY: the caller passes an open device.
    let adapter = unsafe { &ContextRef::of(context).adapter };
    // SAFETY: the caller has room for that many bytes.
    unsafe { write_prefix(attr, &port_attr(&adapter.limits(), adapter.port(), GIDS), size) };
    0
}

/// `ibv_query_port`, as programs built against old headers call it: their structure ends before the second set of flags.
///
/// # Safety
///
/// `context` is an open device and `attr` has room for the fields before `port_cap_flags2`.
pub(super) unsafe extern "C" fn query_port_short(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the caller's promises are passed on.
    unsafe { query_port(context, port, attr, offset_of!(ibv_port_attr, port_cap_flags2)) }
}

/// An entry of the GID table, which may be empty.
///
/// # Safety
///
/// `context` is an open device.
unsafe fn entry(context: *mut ibv_context, port: u32, index: u32) -> Result<Option<GidEntry>, Errno> {
    let index = u8::try_from(index).ok().filter(|&index| port == PORT && u32::from(index) < GIDS);
    // SAFETY: the caller passes an open device.
    Ok(unsafe { ContextRef::of(context) }.adapter.gid(index.ok_or(Errno::INVALID)?))
}

/// The error of a call that was given a path: that our GID is missing takes precedence over what the adapter found.
pub(super) fn path_error(context: &Context, path: &AddressVector, error: Errno) -> Errno {
    let index = path.source_gid_index;
    let looked_up = path.is_global && u32::from(path.port) == PORT && u32::from(index) < GIDS;
    if looked_up && context.adapter.gid(index).is_none() { Errno::NO_GID } else { error }
}

/// An entry as programs see it.
fn gid_entry(index: u32, entry: &GidEntry) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: to_gid(entry.gid),
        gid_index: index,
        port_num: PORT,
        gid_type: match entry.gid_type {
            GidType::RoceV1 => IBV_GID_TYPE_ROCE_V1,
            GidType::RoceV2 => IBV_GID_TYPE_ROCE_V2,
        },
        ndev_ifindex: entry.interface_index,
    }
}

/// `ibv_query_gid(3)`: an empty entry is a GID of zeroes.
///
/// # Safety
///
/// `context` is an open device and `gid` is valid.
pub(super) unsafe extern "C" fn query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: the caller passes an open device and a valid place.
    zero_or_minus_one(unsafe {
        entry(context, port.into(), index.cast_unsigned())
            .map(|entry| *gid = entry.map_or(ibv_gid { raw: [0; 16] }, |entry| to_gid(entry.gid)))
    })
}

/// `ibv_query_gid_type` of the private interface, which counts types from RoCE v1; an empty entry is of that type.
///
/// # Safety
///
/// `context` is an open device and `gid_type` is valid.
pub(super) unsafe extern "C" fn query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    gid_type: *mut c_uint,
) -> c_int {
    let code = |entry: Option<GidEntry>| match entry.map(|entry| entry.gid_type) {
        None | Some(GidType::RoceV1) => 0,
        Some(GidType::RoceV2) => 1,
    };
    // SAFETY: the caller passes an open device and a valid place.
    zero_or_minus_one(unsafe { entry(context, port.into(), index).map(|entry| *gid_type = code(entry)) })
}

/// `ibv_query_gid_ex(3)`.
///
/// # Safety
///
/// `context` is an open device and `to` has room for `size` bytes.
pub(super) unsafe extern "C" fn query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    to: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    if flags != 0 {
        return libc::EINVAL;
    }
    // SAFETY: the caller passes an open device, and has room for that many bytes.
    status(unsafe {
        entry(context, port, index)
            .and_then(|entry| entry.ok_or(Errno::NO_GID))
            .map(|entry| write_prefix(to, &gid_entry(index, &entry), size))
    })
}

/// `ibv_query_gid_table(3)`: returns how many entries are not empty, or a negative error number.
///
/// # Safety
///
/// `context` is an open device and `entries` has room for `room` times `size` bytes.
pub(super) unsafe extern "C" fn query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    room: usize,
    flags: u32,
    size: usize,
) -> isize {
    // SAFETY: the caller passes an open device.
    let context = unsafe { ContextRef::of(context) };
    let found: Vec<ibv_gid_entry> = (0..GIDS)
        .filter_map(|index| context.adapter.gid(index as u8).map(|entry| gid_entry(index, &entry)))
        .collect();
    if flags != 0 || size == 0 || room == 0 || found.len() > room {
        return -(libc::EINVAL as isize);
    }
    for (place, entry) in found.iter().enumerate() {
        // SAFETY: the caller has room for that many entries of that many bytes.
        unsafe { write_prefix(entries.byte_add(place * size), entry, size) };
    }
    found.len().cast_signed()
}

/// `ibv_query_pkey(3)`: big-endian.
///
/// # Safety
///
/// `pkey` is valid.
pub(super) unsafe extern "C" fn query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    if u32::from(port) != PORT || index != 0 {
        return zero_or_minus_one(Err(Errno::NO_ENTRY));
    }
    // SAFETY: the caller passes a valid place.
    unsafe { *pkey = PKEY.to_be() };
    0
}

/// `ibv_get_pkey_index(3)`.
pub(super) extern "C" fn get_pkey_index(_context: *mut ibv_context, port: u8, pkey: u16) -> c_int {
    if u32::from(port) == PORT && u16::from_be(pkey) == PKEY {
        0
    } else {
        zero_or_minus_one(Err(Errno::NO_ENTRY))
    }
}
