//! Sockets by number.

use std::{
    collections::HashMap,
    ffi::{c_int, c_short},
    net::SocketAddr,
    sync::{Arc, LazyLock},
};

use host::CompletionQueue;
use parking_lot::RwLock;

use super::{datagram::DatagramSocket, poll, socket::Socket};
use crate::abi::errno::Errno;

static SOCKETS: LazyLock<RwLock<HashMap<c_int, Entry>>> = LazyLock::new(RwLock::default);

/// A socket of either kind.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Stream(Arc<Socket>),
    Datagram(Arc<DatagramSocket>),
}

impl Entry {
    /// Its number.
    pub fn number(&self) -> c_int {
        match self {
            Self::Stream(socket) => socket.number(),
            Self::Datagram(socket) => socket.number(),
        }
    }

    /// Whether calls do not wait.
    pub fn is_nonblocking(&self) -> bool {
        match self {
            Self::Stream(socket) => socket.lock().waiting.is_nonblocking,
            Self::Datagram(socket) => socket.lock().waiting.is_nonblocking,
        }
    }

    /// Says whether calls wait.
    pub fn set_nonblocking(&self, is_nonblocking: bool) {
        match self {
            Self::Stream(socket) => socket.lock().waiting.is_nonblocking = is_nonblocking,
            Self::Datagram(socket) => socket.lock().waiting.is_nonblocking = is_nonblocking,
        }
    }

    /// Gives it an address and a port.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Errno> {
        match self {
            Self::Stream(socket) => socket.bind(address),
            Self::Datagram(socket) => socket.bind(address),
        }
    }

    /// Connects it.
    pub fn connect(&self, address: SocketAddr) -> Result<(), Errno> {
        match self {
            Self::Stream(socket) => socket.connect(address),
            Self::Datagram(socket) => socket.connect(address),
        }
    }

    /// Our address.
    pub fn local(&self) -> Result<SocketAddr, Errno> {
        match self {
            Self::Stream(socket) => {
                let inner = socket.lock();
                Ok(inner.local.unwrap_or_else(|| inner.wildcard()))
            }
            Self::Datagram(socket) => socket.lock().local(),
        }
    }

    /// The peer's address.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Stream(socket) => socket.lock().peer,
            Self::Datagram(socket) => socket.lock().peer,
        }
    }

    /// What of `events` it is ready for, and what else there is to know.
    pub fn readiness(&self, events: c_short) -> c_short {
        match self {
            Self::Stream(socket) => poll::stream_readiness(&mut socket.look(), events),
            Self::Datagram(socket) => poll::datagram_readiness(&socket.look(), events),
        }
    }

    /// Prepares for a poll(2) of its descriptors; returns the one beside its own.
    pub fn watch(&self) -> Result<Option<CompletionQueue>, Errno> {
        match self {
            Self::Stream(socket) => socket.watch(),
            Self::Datagram(socket) => socket.watch(),
        }
    }

    /// That poll(2) is over.
    pub fn watched(&self) {
        match self {
            Self::Stream(socket) => socket.watched(),
            Self::Datagram(socket) => socket.watched(),
        }
    }
}

/// Adds a socket; returns its number.
pub(super) fn insert(socket: Entry) -> c_int {
    let number = socket.number();
    SOCKETS.write().insert(number, socket);
    number
}

/// The socket that has this number.
pub(super) fn find(number: c_int) -> Result<Entry, Errno> {
    SOCKETS.read().get(&number).cloned().ok_or(Errno(libc::EBADF))
}

/// The stream that has this number.
pub(super) fn stream(number: c_int) -> Result<Arc<Socket>, Errno> {
    match find(number)? {
        Entry::Stream(socket) => Ok(socket),
        Entry::Datagram(_) => Err(Errno(libc::EOPNOTSUPP)),
    }
}

/// Removes it.
pub(super) fn remove(number: c_int) -> Result<Entry, Errno> {
    SOCKETS.write().remove(&number).ok_or(Errno(libc::EBADF))
}
