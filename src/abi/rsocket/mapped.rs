//! The calls of `rsocket.h` that write to memory which the peer has mapped.

use std::ffi::{c_int, c_void};

use libc::{off_t, ssize_t};

use super::{
    outcome::{count, number},
    state::domain,
    table,
    transfer::{can_write, tell_mappings},
};
use crate::abi::{
    convert::{Flags, bytes},
    errno::{Errno, zero_or_minus_one},
};

/// `riomap`: returns the offset under which the peer writes there.
///
/// # Safety
///
/// The memory stays mapped, readable and writable until `riounmap`, or until the socket is closed.
pub(in crate::abi) unsafe extern "C" fn iomap(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    protection: c_int,
    _flags: c_int,
    offset: off_t,
) -> off_t {
    let map = || -> Result<off_t, Errno> {
        if protection & libc::PROT_WRITE == 0 {
            return Err(Errno(libc::ENOTSUP));
        }
        let socket = table::stream(fd)?;
        let mut inner = socket.look();
        let room = inner.link().ok_or(Errno(libc::ENOTCONN))?.mapping_room();
        let (pd, offset) = (&domain()?.0, u64::try_from(offset).ok());
        // SAFETY: the caller's promise is passed on.
        let offset = unsafe { inner.mappings.add(pd, buffer, length, offset, room)? };
        tell_mappings(&mut inner)?;
        Ok(offset.cast_signed())
    };
    number(map()) as off_t
}

/// `riounmap`.
pub(in crate::abi) extern "C" fn iounmap(fd: c_int, buffer: *mut c_void, length: usize) -> c_int {
    let unmap = || -> Result<(), Errno> {
        let socket = table::stream(fd)?;
        let mut inner = socket.look();
        inner.mappings.remove(buffer, length)?;
        tell_mappings(&mut inner).map(drop)
    };
    zero_or_minus_one(unmap())
}

/// `riowrite`: writes to what the peer has mapped.
///
/// # Safety
///
/// `buffer` has `length` bytes.
pub(in crate::abi) unsafe extern "C" fn iowrite(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller passes that many bytes.
    let data = unsafe { bytes(buffer.cast::<u8>(), length) };
    let write = || -> Result<usize, Errno> {
        let socket = table::stream(fd)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::INVALID)?;
        let mut sent = 0;
        let done = socket.until(flags.has(libc::MSG_DONTWAIT), |inner| {
            if let Err(error) = can_write(inner) {
                return Some(Err(error));
            }
            let link = inner.sending_link()?;
            while sent < data.len() {
                let at = offset + sent as u64;
                let Some(mapping) = link.find_mapping(at, data.len() - sent) else {
                    return Some(Err(Errno(libc::EFAULT)));
                };
                match link.write_mapped(&mapping, at, &data[sent..]) {
                    Ok(0) => return None,
                    Ok(count) => sent += count,
                    Err(error) => return Some(Err(error)),
                }
            }
            Some(Ok(()))
        });
        match done {
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    };
    count(write())
}
