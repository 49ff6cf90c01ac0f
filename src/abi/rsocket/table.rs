//! Sockets by number.

use std::{
    collections::HashMap,
    ffi::c_int,
    sync::{Arc, LazyLock},
};

use parking_lot::RwLock;

use super::socket::Socket;
use crate::abi::errno::Errno;

static SOCKETS: LazyLock<RwLock<HashMap<c_int, Arc<Socket>>>> = LazyLock::new(RwLock::default);

/// Adds a socket; returns its number.
pub(super) fn insert(socket: Arc<Socket>) -> c_int {
    let number = socket.number();
    SOCKETS.write().insert(number, socket);
    number
}

/// The socket that has this number.
pub(super) fn find(number: c_int) -> Result<Arc<Socket>, Errno> {
    SOCKETS.read().get(&number).cloned().ok_or(Errno(libc::EBADF))
}

/// Removes it.
pub(super) fn remove(number: c_int) -> Result<Arc<Socket>, Errno> {
    SOCKETS.write().remove(&number).ok_or(Errno(libc::EBADF))
}
