//! One UDP port shared by many sockets, each datagram steered by a field of its payload.
//!
//! Linux gives the sockets that share a port by `SO_REUSEPORT` indices in the order of their binding, and lets a classic
//! BPF program choose among them (`SO_ATTACH_REUSEPORT_CBPF`); neither needs privileges. A process makes the whole group
//! and hands single sockets to others. It keeps every socket open itself, because the kernel closes a gap in the group by
//! moving the last socket into it, and then that one would receive what is meant for the gap.
//!
//! [`ReuseportGroup::renew`] puts this very move to use.
//!
//! The sockets of a group have the smallest buffers there are, so that packets for an index that nobody has cannot pile up.
//! [`UdpSocket::from_fd`], by which the receiver of a socket adopts it, gives it proper ones.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::sockopt;

use crate::udp::{BindError, BufferSizes, UdpOptions, UdpSocket, failed, set_value};

/// How the sockets of a group are made.
const OPTIONS: UdpOptions = UdpOptions { buffers: BufferSizes::SMALLEST, segmentation: true };

/// Which socket of a group a datagram goes to: the one whose index is the big-endian 32-bit word at `offset` in the payload,
/// of which `mask` is kept.
///
/// A datagram too short for that goes to index 0. One whose index does not exist goes to a socket of the kernel's choice,
/// so the group should be as large as the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Bytes of payload before the word.
    pub offset: u32,
    /// Which bits of the word make the index.
    pub mask: u32,
}

/// Sockets sharing one port. The last is a spare for [`ReuseportGroup::renew`], so of a group of 256 it has 255 to give.
#[derive(Debug)]
pub struct ReuseportGroup {
    /// By index, the spare excluded; `None` while being renewed.
    sockets: Vec<Option<UdpSocket>>,
    /// The socket of the last index; `None` if it could not be made anew.
    spare: Option<UdpSocket>,
    /// The socket last let go, by index and inode number, until it is known to be gone.
    leaving: Option<(usize, u64)>,
    port: u16,
}

/// Why a socket was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// Some process still holds the old socket. Try again later; until then the index belongs to that process.
    #[error("another process still holds the socket")]
    StillHeld,
    /// The socket of another index is still held, and only one may be under way. Try again when that is done.
    #[error("the socket of index {0} is still held")]
    OtherStillHeld(usize),
    /// There is no such index to renew.
    #[error("no socket of index {0}")]
    NoSuchIndex(usize),
    /// The replacement is in place but there is no new spare for the next time.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The kernel's list of sockets (/proc/net/udp) could not be read.
    #[error("cannot list sockets: {0}")]
    System(#[from] io::Error),
}

impl ReuseportGroup {
    /// Binds `count` sockets to `port` (0: the kernel chooses one), at least two, in the order of their index.
    ///
    /// Nobody else may have the port, even if willing to share it.
    pub fn bind(port: u16, count: usize, steering: Steering) -> Result<Self, BindError> {
        // Bound exclusively, then opened to the others: so a second group on the port fails instead of mixing in.
        let first = OPTIONS.bind(port)?;
        sockopt::set_socket_reuseport(&first, true)
            .map_err(io::Error::from)
            .map_err(failed("share the port of"))?;
        let port = first.port();
        let second = join(port)?;
        steer(&first, steering).map_err(failed("steer"))?;
        let mut sockets = vec![Some(first), Some(second)];
        while sockets.len() < count {
            sockets.push(Some(join(port)?));
        }
        let spare = sockets.pop().flatten();
        Ok(Self { sockets, spare, leaving: None, port })
    }

    /// The port bound.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many sockets there are to give, which is one less than were made.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether there are no sockets; never so.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// The socket of `index`; `None` if there is none or it is being renewed.
    pub fn socket(&self, index: usize) -> Option<&UdpSocket> {
        self.sockets.get(index)?.as_ref()
    }

    /// Replaces the socket of `index`, which another process had and is done with, by a fresh one: with an empty queue, no
    /// multicast memberships and none of the options that process may have set.
    ///
    /// The old socket must be closed everywhere. That of a process that has just died may live a little longer, so call
    /// this again after [`RenewError::StillHeld`].
    pub fn renew(&mut self, index: usize) -> Result<(), RenewError> {
        if index >= self.sockets.len() {
            return Err(RenewError::NoSuchIndex(index));
        }
        match self.leaving {
            Some((other, _)) if other != index => {
                // It may be gone by now, and the spare in its place.
                match self.settle() {
                    Err(RenewError::StillHeld) => return Err(RenewError::OtherStillHeld(other)),
                    result => result?,
                }
            }
            Some(_) => return self.settle(),
            None => {}
        }
        self.ensure_spare()?;
        let inode = match &self.sockets[index] {
            Some(socket) => rustix::fs::fstat(socket).map_err(io::Error::from)?.st_ino,
            None => return Err(RenewError::NoSuchIndex(index)),
        };
        self.sockets[index] = None;
        self.leaving = Some((index, inode));
        self.settle()
    }

    /// If the socket that is leaving has gone, notes that the kernel moved the spare into its place, and makes a new spare.
    fn settle(&mut self) -> Result<(), RenewError> {
        if let Some((index, inode)) = self.leaving {
            if is_open(inode)? {
                return Err(RenewError::StillHeld);
            }
            self.sockets[index] = self.spare.take();
            self.leaving = None;
        }
        Ok(self.ensure_spare()?)
    }

    fn ensure_spare(&mut self) -> Result<(), BindError> {
        if self.spare.is_none() {
            self.spare = Some(join(self.port)?);
        }
        Ok(())
    }
}

/// Binds one more socket to a port that is shared.
fn join(port: u16) -> Result<UdpSocket, BindError> {
    OPTIONS.bind_with(port, |fd: &OwnedFd| Ok(sockopt::set_socket_reuseport(fd, true)?))
}

fn steer(member: impl AsFd, steering: Steering) -> io::Result<()> {
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const RETURN_IT: u16 = (libc::BPF_RET | libc::BPF_A) as u16;
    let instruction = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let mut program =
        [instruction(LOAD_WORD, steering.offset), instruction(AND, steering.mask), instruction(RETURN_IT, 0)];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_value(member, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Whether any process holds the UDP socket of inode number `inode`.
fn is_open(inode: u64) -> io::Result<bool> {
    let inode = inode.to_string();
    for list in ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"] {
        match fs::read_to_string(list) {
            Ok(text) if lists_inode(&text, &inode) => return Ok(true),
            // A machine without IPv6 has no such list.
            Err(error) if error.kind() != io::ErrorKind::NotFound || list.ends_with("udp") => {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Whether `text`, in the form of /proc/net/udp, has a line of that inode number, which is in the tenth column.
fn lists_inode(text: &str, inode: &str) -> bool {
    text.lines().any(|line| line.split_ascii_whitespace().nth(9) == Some(inode))
}
