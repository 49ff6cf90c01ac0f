//! Questions to the kernel's routing tables (rtnetlink(7)).
//!
//! By hand: there are four questions, and this library is loaded into other people's programs.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::bytes::read;

/// The kernel sends no message that is larger (`NLMSG_GOODSIZE` is less).
const BUFFER: usize = 64 * 1024;

/// `struct nlmsghdr`.
const HEADER: usize = 16;

/// How often to ask again when the tables change during the answer.
const ATTEMPTS: usize = 8;

/// The kernel answers at once; a sandbox that does not must not hang the program.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// A message received, without its header.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) body: Vec<u8>,
}

/// Makes a blocking socket which is told of changes in `groups` (`RTMGRP_...`), 0 for none.
pub(crate) fn open(groups: u32) -> io::Result<OwnedFd> {
    let fd = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
    Ok(fd)
}

/// Asks for a whole table.
pub(crate) fn dump(kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
    for _ in 0..ATTEMPTS {
        match ask(kind, libc::NLM_F_DUMP as u16, body)? {
            Answer { interrupted: true, .. } => {}
            Answer { messages, .. } => return Ok(messages),
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "the routing tables keep changing"))
}

/// Asks for one entry.
pub(crate) fn query(kind: u16, body: &[u8]) -> io::Result<Message> {
    let no_answer = || io::Error::new(io::ErrorKind::InvalidData, "netlink: no answer");
    ask(kind, 0, body)?.messages.pop().ok_or_else(no_answer)
}

struct Answer {
    messages: Vec<Message>,
    /// The table changed meanwhile, so entries may be missing or doubled.
    interrupted: bool,
}

fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<Answer> {
    let fd = open(0)?;
    sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(PATIENCE))?;
    net::send(&fd, &request(kind, flags, body), SendFlags::NOSIGNAL)?;
    let mut answer = Answer { messages: Vec::new(), interrupted: false };
    let mut buffer = vec![0; BUFFER];
    loop {
        let (_, length) = rustix::io::retry_on_intr(|| net::recv(&fd, &mut buffer[..], RecvFlags::TRUNC))?;
        if length > buffer.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "netlink: message too large"));
        }
        for message in split(&buffer[..length]) {
            let done = !message.multi;
            answer.interrupted |= message.interrupted;
            match i32::from(message.kind) {
                libc::NLMSG_DONE => return Ok(answer),
                libc::NLMSG_ERROR => return error_of(message.body).map(|()| answer),
                _ => answer.messages.push(Message { kind: message.kind, body: message.body.to_vec() }),
            }
            if done {
                return Ok(answer);
            }
        }
    }
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u32;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&(flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Sequence number and sender: a socket that asks one question needs neither.
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(body);
    bytes
}

/// `struct nlmsgerr` starts with a negated error number; 0 is an acknowledgement.
fn error_of(body: &[u8]) -> io::Result<()> {
    match read(body, 0).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(negated) => Err(io::Error::from_raw_os_error(negated.saturating_neg())),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "netlink: error cut short")),
    }
}

struct Part<'a> {
    kind: u16,
    multi: bool,
    interrupted: bool,
    body: &'a [u8],
}

/// The messages in a datagram; ends at the first that does not hold together.
fn split(mut bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(read(bytes, 0)?) as usize;
        let kind = u16::from_ne_bytes(read(bytes, 4)?);
        let flags = i32::from(u16::from_ne_bytes(read(bytes, 6)?));
        let body = bytes.get(HEADER..length)?;
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        Some(Part {
            kind,
            multi: flags & libc::NLM_F_MULTI != 0,
            interrupted: flags & libc::NLM_F_DUMP_INTR != 0,
            body,
        })
    })
}

/// The attributes after the first `header` bytes of a message or, nested, of an attribute: (type, value).
pub(crate) fn attributes(body: &[u8], header: usize) -> impl Iterator<Item = (u16, &[u8])> {
    const HEADER: usize = 4;
    const TYPE: u16 = libc::NLA_TYPE_MASK as u16;
    let mut rest = body.get(header..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(read(rest, 0)?));
        let kind = u16::from_ne_bytes(read(rest, 2)?) & TYPE;
        let value = rest.get(HEADER..length)?;
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        Some((kind, value))
    })
}

/// Appends an attribute to a message.
pub(crate) fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (4 + value.len()) as u16;
    body.extend_from_slice(&length.to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_are_pushed() {
        let mut body = vec![9; 8];
        push_attribute(&mut body, 1, &[1, 2, 3]);
        push_attribute(&mut body, 2, &[]);
        push_attribute(&mut body, 3 | libc::NLA_F_NESTED as u16, &[7; 8]);
        let read: Vec<_> = attributes(&body, 8).collect();
        assert_eq!(read, [(1, &[1, 2, 3][..]), (2, &[]), (3, &[7; 8])]);
    }

    #[test]
    fn lengths_that_lie_end_the_iteration() {
        for length in [0u16, 3, 9, u16::MAX] {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[0; 6]);
            assert_eq!(attributes(&bytes, 0).count(), 0, "{length}");
            assert_eq!(attributes(&bytes, 100).count(), 0);
        }
        for length in [0u32, 15, 17, u32::MAX] {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[0; 12]);
            assert_eq!(split(&bytes).count(), 0, "{length}");
        }
    }

    #[test]
    fn an_impossible_question_is_an_error() {
        assert!(dump(0xFFF0, &[0; 4]).is_err());
    }
}
