//! A `libibverbs.so.1`, loaded by its path, and a device of its.

use std::{
    ffi::{CStr, OsStr},
    mem::zeroed,
    ptr::null_mut,
};

use anyhow::{Context as _, Result, ensure};
use wire::Gid;

use super::bindings::{Functions, ibv_context, ibv_gid_entry};

/// Entries of a GID table that are looked at.
const GIDS: u32 = 256;

/// `IBV_GID_TYPE_ROCE_V2`.
const ROCE_V2: u32 = 2;

/// Loads a library, for as long as the process lives: providers and threads of it stay.
pub(super) fn load(path: &OsStr) -> Result<&'static Functions> {
    // SAFETY: that is what loading a library means: its initialisers are trusted.
    let library = unsafe { libloading::Library::new(path) }.with_context(|| format!("loading {path:?}"))?;
    let library = Box::leak(Box::new(library));
    // SAFETY: it is never unloaded, and whoever named it says what it is.
    let functions = unsafe { Functions::of(library) }.with_context(|| format!("not libibverbs: {path:?}"))?;
    Ok(Box::leak(Box::new(functions)))
}

/// Opens the device of this name, or the first.
pub(super) fn open(functions: &Functions, name: Option<&str>) -> Result<*mut ibv_context> {
    // SAFETY: the list ends with a null, names are C strings, and both stay until the list is freed.
    unsafe {
        let list = (functions.ibv_get_device_list)(null_mut());
        ensure!(!list.is_null(), "no list of devices: {}", std::io::Error::last_os_error());
        let mut context: *mut ibv_context = null_mut();
        let mut at = list;
        while !(*at).is_null() && context.is_null() {
            let found = CStr::from_ptr((functions.ibv_get_device_name)(*at)).to_string_lossy();
            if name.is_none_or(|name| name == found) {
                context = (functions.ibv_open_device)(*at);
                ensure!(!context.is_null(), "opening {found}: {}", std::io::Error::last_os_error());
            }
            at = at.add(1);
        }
        (functions.ibv_free_device_list)(list);
        ensure!(!context.is_null(), "no device {}", name.unwrap_or("at all"));
        Ok(context)
    }
}

/// The first RoCE v2 GID of an open device that is an IPv4 address.
pub(super) fn ipv4_gid(functions: &Functions, context: *mut ibv_context) -> Result<(u8, Gid)> {
    for index in 0..GIDS {
        // SAFETY: the entry is plain numbers, which the function fills.
        let (status, entry) = unsafe {
            let mut entry: ibv_gid_entry = zeroed();
            let size = size_of::<ibv_gid_entry>();
            ((functions._ibv_query_gid_ex)(context, 1, index, &raw mut entry, 0, size), entry)
        };
        let gid = Gid(entry.gid.raw);
        if status == 0 && entry.gid_type == ROCE_V2 && gid.is_ipv4_mapped() {
            return Ok((index as u8, gid));
        }
    }
    anyhow::bail!("the device has no IPv4 address")
}
