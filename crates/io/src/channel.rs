//! Messages with file descriptors between processes of one machine.
//!
//! A message arrives whole or not at all (`SOCK_SEQPACKET`). Nothing here waits unless its name says so, and sizes are
//! bounded, so that a peer that behaves badly gets nowhere: it can fill its own socket, and be disconnected.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use crate::clock::now_ns;
use crate::poll::{Interest, Poller};

/// Most bytes of a message.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Most file descriptors with a message.
pub const MAX_FDS: usize = 16;

/// How many may wait to be accepted.
const BACKLOG: i32 = 128;

/// Where a listener is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A name in the abstract namespace: it belongs to the network namespace, as UDP ports do, and vanishes with the
    /// listener. Anyone may connect to it.
    Abstract(String),
    /// A path in the file system, subject to its permissions.
    Path(PathBuf),
}

impl Address {
    fn encode(&self) -> rustix::io::Result<SocketAddrUnix> {
        match self {
            Self::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            Self::Path(path) => SocketAddrUnix::new(path),
        }
    }
}

/// Accepts channels.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Listens at `address`; the error is `AddrInUse` if somebody does already, or a path exists.
    pub fn bind(address: &Address) -> io::Result<Self> {
        let fd = open()?;
        net::bind(&fd, &address.encode()?)?;
        net::listen(&fd, BACKLOG)?;
        Ok(Self(fd))
    }

    /// The next channel, if anyone waits to be accepted.
    pub fn accept(&self) -> io::Result<Option<Channel>> {
        loop {
            match net::accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => return Ok(Some(Channel(fd))),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Who is at the other end, as of when the channel was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process, in our own PID namespace; 0 if it is not there.
    pub pid: i32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// A message received, but for its bytes.
#[derive(Debug)]
pub enum Received {
    /// A message of so many bytes, in the buffer, with these file descriptors.
    Message(usize, Vec<OwnedFd>),
    /// Nothing at present.
    Nothing,
    /// The other end is closed, and all it sent has been received.
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Connects to a listener; the error is `ConnectionRefused` or `NotFound` if there is none, `WouldBlock` if too many
    /// wait to be accepted.
    pub fn connect(address: &Address) -> io::Result<Self> {
        let fd = open()?;
        net::connect(&fd, &address.encode()?)?;
        Ok(Self(fd))
    }

    /// Two ends of one connection.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), Self(other)))
    }

    /// An end that was inherited.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let right = sockopt::socket_domain(&fd)? == AddressFamily::UNIX
            && sockopt::socket_type(&fd)? == SocketType::SEQPACKET;
        if !right {
            return Err(invalid_input("not a channel"));
        }
        rustix::io::ioctl_fionbio(&fd, true)?;
        rustix::io::ioctl_fioclex(&fd)?;
        Ok(Self(fd))
    }

    /// Sends `bytes`, from 1 to [`MAX_MESSAGE`] of them, with up to [`MAX_FDS`] file descriptors. The error is `WouldBlock`
    /// if the other end does not keep up, `BrokenPipe` if it is closed.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > MAX_MESSAGE || fds.len() > MAX_FDS {
            return Err(invalid_input("message of a size that is not allowed"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(invalid_input("too many file descriptors"));
        }
        let slices = [io::IoSlice::new(bytes)];
        loop {
            match net::sendmsg(&self.0, &slices, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Receives a message into `buffer`. The error is `InvalidData` if the message exceeds it, or carried more file
    /// descriptors than allowed or than this process can open; none of them stays open then.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let message = loop {
            let mut slices = [io::IoSliceMut::new(&mut *buffer)];
            match net::recvmsg(&self.0, &mut slices, &mut control, flags) {
                Ok(message) => break message,
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(Received::Closed),
                Err(errno) => return Err(errno.into()),
            }
        };
        let fds = received_fds(&mut control);
        if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "message larger than allowed"));
        }
        match message.bytes {
            // An empty message looks the same as the end, which is why none is ever sent.
            0 => Ok(Received::Closed),
            length => Ok(Received::Message(length, fds)),
        }
    }

    /// The same, waiting up to `timeout_ns` nanoseconds for a message.
    pub fn receive_within(&self, buffer: &mut [u8], timeout_ns: u64) -> io::Result<Received> {
        let deadline = now_ns().saturating_add(timeout_ns);
        loop {
            let received = self.receive(buffer)?;
            let left = deadline.saturating_sub(now_ns());
            if !matches!(received, Received::Nothing) || left == 0 {
                return Ok(received);
            }
            let mut poller = Poller::new();
            poller.add(self.0.as_fd(), Interest::Readable);
            poller.wait(Some(left))?;
        }
    }

    /// Who made the other end.
    pub fn peer(&self) -> io::Result<Credentials> {
        let credentials = peer_credentials(self.0.as_raw_fd())?;
        Ok(Credentials { pid: credentials.pid, uid: credentials.uid, gid: credentials.gid })
    }
}

/// `SO_PEERCRED`. The process is 0 if it is in no namespace below ours, which rustix's type cannot say.
fn peer_credentials(fd: RawFd) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let value = std::ptr::from_mut(&mut credentials).cast();
    // SAFETY: the kernel writes at most `length` bytes to `credentials`, any of which make a valid value.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, value, &mut length) };
    if result == 0 { Ok(credentials) } else { Err(io::Error::last_os_error()) }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn received_fds(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    rights.flatten().collect()
}

fn invalid_input(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}
