//! What a program that has a slot asks the service for: ports, listeners, and its datagrams of QP 1.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::io::channel::{Channel, Received};
use ::io::poll::{Interest, Poller};
use nic::cm::{CmError, Listen, ListenAddress};
use wire::cm::PortSpace;

use super::protocol::{Answer, Ask, Denial, MAX_MESSAGE};
use crate::cm::{ManagerError, PortError};

/// How long the service may take to answer, in nanoseconds.
const PATIENCE: u64 = 5_000_000_000;

/// The connection to the service. The slot, and all that was asked for, is ours for as long as it is open.
#[derive(Debug)]
pub(crate) struct Lease {
    slot: u8,
    channel: Mutex<Channel>,
}

impl Lease {
    pub(super) fn new(slot: u8, channel: Channel) -> Self {
        Self { slot, channel: Mutex::new(channel) }
    }

    /// The number of the slot.
    pub(crate) fn slot(&self) -> u8 {
        self.slot
    }

    /// Asks for the channel on which the datagrams of QP 1 arrive.
    pub(crate) fn open_mad_channel(&self) -> io::Result<Channel> {
        match self.ask(&Ask::OpenMadChannel)? {
            (Answer::Done, Some(channel)) => Ok(channel),
            _ => Err(nonsense()),
        }
    }

    /// Reserves a port; returns its number.
    pub(crate) fn reserve(
        &self,
        token: u32,
        space: PortSpace,
        address: ListenAddress,
        port: u16,
        shared: bool,
    ) -> Result<u16, PortError> {
        match self.ask(&Ask::Reserve { token, space, address, port, shared })?.0 {
            Answer::Port(port) => Ok(port),
            Answer::Denied(Denial::InUse) => Err(PortError::InUse),
            Answer::Denied(Denial::NotPermitted) => Err(PortError::NotPermitted),
            Answer::Denied(Denial::Exhausted) => Err(PortError::Exhausted),
            _ => Err(nonsense().into()),
        }
    }

    /// Gives a port back.
    pub(crate) fn release(&self, token: u32) {
        self.tell(&Ask::Release { token });
    }

    /// Asks for the requests for a service.
    pub(crate) fn listen(&self, listen: Listen) -> Result<(), ManagerError> {
        match self.ask(&Ask::Listen(listen))?.0 {
            Answer::Done => Ok(()),
            Answer::Denied(Denial::NotPermitted) => Err(CmError::InvalidValue("listen").into()),
            Answer::Denied(Denial::Exhausted) => Err(CmError::TooMany.into()),
            Answer::Denied(_) => Err(CmError::InUse.into()),
            _ => Err(nonsense().into()),
        }
    }

    /// Asks for no more of them.
    pub(crate) fn unlisten(&self, listen: Listen) {
        self.tell(&Ask::Unlisten(listen));
    }

    /// Keeps other threads from asking, so that a fork finds the service with no answer to give.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something that has no answer. The service reads what it is told as fast as it can; if it is
    /// gone, nothing is left to say.
    fn tell(&self, ask: &Ask) {
        let _ = send(&self.lock(), ask);
    }

    fn ask(&self, ask: &Ask) -> io::Result<(Answer, Option<Channel>)> {
        let channel = self.lock();
        send(&channel, ask)?;
        let mut buffer = [0; MAX_MESSAGE];
        match channel.receive_within(&mut buffer, PATIENCE)? {
            Received::Message(length, fds) => {
                let answer = Answer::parse(&buffer[..length]).ok_or_else(nonsense)?;
                Ok((answer, fds.into_iter().next().map(Channel::from_fd).transpose()?))
            }
            Received::Closed => Err(ErrorKind::ConnectionReset.into()),
            Received::Nothing => Err(ErrorKind::TimedOut.into()),
        }
    }
}

/// Sends, waiting for room if the service does not keep up.
fn send(channel: &Channel, ask: &Ask) -> io::Result<()> {
    let bytes = ask.emit();
    loop {
        match channel.send(&bytes, &[]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut poller = Poller::new();
                poller.add(channel.as_fd(), Interest::Writable);
                if poller.wait(Some(PATIENCE))? == 0 {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            result => return result,
        }
    }
}

fn nonsense() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the answer makes no sense")
}
