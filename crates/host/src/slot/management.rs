//! QP 1 of this host: connection management on behalf of all programs.
//!
//! Datagrams for QP 1 arrive in the slot of that number, which is the service's own. A [`Switchboard`]
//! says which program each one is for, and it is passed on over that program's channel. If a program does
//! not keep up the datagram is dropped, as on any other way: the peer sends it again.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use ::io::channel::Channel;
use ::io::interfaces::{AddressWatch, watch_addresses};
use ::io::reuseport::ReuseportGroup;
use ::io::udp::UdpSocket;
use nic::cm::{Bind, BindError, Listen, ListenAddress, Switchboard, is_cm_datagram};
use nic::{Instant, Payload};
use wire::Psn;
use wire::cm::PortSpace;

use super::client::Slot;
use super::protocol::{Answer, Ask, Denial, Forwarded};
use super::{MANAGEMENT, SUFFIX_BITS};
use crate::link::{Link, Sent};

/// Ports that a program may have.
const MAX_PORTS: usize = 1 << 16;

/// The first port that anybody may have, unless the system says otherwise.
const FIRST_UNPRIVILEGED: u16 = 1024;

/// How long to wait for room to send, of which there is no notice.
const RETRY_INTERVAL_NS: u64 = 1_000_000;

/// Connection management of this host.
#[derive(Debug)]
pub(super) struct Management {
    link: Link,
    socket: Arc<UdpSocket>,
    /// Without it the addresses stay as they were.
    watch: Option<AddressWatch>,
    board: Switchboard,
    programs: BTreeMap<u8, Program>,
    psn: Psn,
    /// Whether answers wait for room.
    is_stalled: bool,
    /// Datagrams that their program did not take in time.
    dropped: u64,
}

/// A program that connects.
#[derive(Debug, Default)]
struct Program {
    /// Where its datagrams go, and where it receives them, which it may ask for again.
    mads: Option<(Channel, Channel)>,
    /// Its ports, by what it calls them.
    ports: BTreeMap<u32, Bind>,
}

impl Management {
    /// Takes the slot of QP 1 from the group.
    pub(super) fn new(group: &ReuseportGroup) -> io::Result<Self> {
        let socket = group.socket(usize::from(MANAGEMENT)).ok_or(io::ErrorKind::NotFound)?;
        // Adopted, it has buffers of a proper size.
        let slot = Slot::management(UdpSocket::from_fd(socket.as_fd().try_clone_to_owned()?)?);
        let socket = Arc::clone(slot.socket());
        let mut link = Link::new(slot, None, None);
        link.refresh_gids()?;
        Ok(Self {
            link,
            socket,
            watch: watch_addresses().ok(),
            board: Switchboard::new(SUFFIX_BITS, crate::device::seed()),
            programs: BTreeMap::new(),
            psn: Psn::ZERO,
            is_stalled: false,
            dropped: 0,
        })
    }

    /// Where datagrams arrive.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Where changes of addresses are told.
    pub(super) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// How long at most, in nanoseconds.
    pub(super) fn patience(&self) -> Option<u64> {
        let due = self.board.poll_timeout().map(|due| (due - now()).as_nanos_ceil());
        [due, self.is_stalled.then_some(RETRY_INTERVAL_NS)].into_iter().flatten().min()
    }

    // ---- datagrams

    /// Follows changes of addresses.
    pub(super) fn follow_addresses(&mut self) {
        if self.watch.as_ref().is_some_and(|watch| watch.take().unwrap_or(false)) {
            // If they cannot be read now, the next change will be noticed too.
            let _ = self.link.refresh_gids();
        }
    }

    /// Does what is due, and sends what waits.
    pub(super) fn serve(&mut self) {
        self.board.handle_timeout(now());
        self.transmit();
    }

    /// Passes on a batch of what has arrived.
    pub(super) fn receive(&mut self) {
        let now = now();
        let mut arrived = Vec::new();
        self.link.receive(now, |arrival, interface, headers, payload| {
            let Payload::Bytes(bytes) = payload else { return };
            if let (true, Ok(mad)) = (is_cm_datagram(headers), bytes.try_into()) {
                arrived.push(Forwarded { arrival: *arrival, interface, mad });
            }
        });
        let mut bundles: BTreeMap<u8, Vec<Forwarded>> = BTreeMap::new();
        for forwarded in arrived {
            if let Some(program) = self.route(now, &forwarded) {
                bundles.entry(program).or_default().push(forwarded);
            }
        }
        bundles.iter().for_each(|(&program, datagrams)| self.pass_on(program, datagrams));
    }

    /// The slot of the program that a datagram is for.
    fn route(&mut self, now: Instant, forwarded: &Forwarded) -> Option<u8> {
        let Forwarded { arrival, interface, mad } = forwarded;
        let index = self.link.gids().index_of(arrival.destination, *interface)?;
        self.board.route(now, arrival, index, mad).map(|program| program as u8)
    }

    fn pass_on(&mut self, program: u8, datagrams: &[Forwarded]) {
        let mads = self.programs.get(&program).and_then(|program| program.mads.as_ref());
        for (message, count) in Forwarded::bundle(datagrams) {
            if mads.is_none_or(|(ours, _)| ours.send(&message, &[]).is_err()) {
                self.dropped += count as u64;
            }
        }
    }

    fn transmit(&mut self) {
        let mut sent = self.link.flush();
        while sent == Sent::Done
            && let Some(datagram) = self.board.poll_transmit()
        {
            sent = self.link.send(datagram.into_transmit(self.psn));
            self.psn += 1;
        }
        self.is_stalled = self.link.flush() == Sent::Later;
    }

    // ---- programs

    /// Does what the program of a slot asks for, and answers on its lease.
    pub(super) fn hear(&mut self, slot: u8, lease: &Channel, message: &[u8]) -> io::Result<()> {
        let ask = Ask::parse(message).ok_or(io::ErrorKind::InvalidData)?;
        self.programs.entry(slot).or_insert_with(|| {
            self.board.join(slot.into());
            Program::default()
        });
        let answer = match ask {
            Ask::OpenMadChannel => return self.open(slot, lease),
            Ask::Reserve { token, space, address, port, shared } => {
                let bind = Bind { space, address, port, reuse: shared };
                self.reserve(slot, lease, token, bind).map(Answer::Port)
            }
            Ask::Listen(listen) => self.listen(slot, listen).map(|()| Answer::Done),
            Ask::Release { token } => {
                self.release(slot, token);
                return Ok(());
            }
            Ask::Unlisten(listen) => {
                self.board.unlisten(slot.into(), listen);
                return Ok(());
            }
        };
        lease.send(&answer.unwrap_or_else(Answer::Denied).emit(), &[])
    }

    /// The program of a slot has gone: its ports are free, and its peers are told.
    pub(super) fn leave(&mut self, slot: u8) {
        if self.programs.remove(&slot).is_some() {
            self.board.leave(now(), slot.into());
            self.transmit();
        }
    }

    fn open(&mut self, slot: u8, lease: &Channel) -> io::Result<()> {
        let mads = &mut self.programs.entry(slot).or_default().mads;
        let (_, theirs) = match mads {
            Some(pair) => pair,
            none => none.insert(Channel::pair()?),
        };
        lease.send(&Answer::Done.emit(), &[theirs.as_fd()])
    }

    fn reserve(&mut self, slot: u8, lease: &Channel, token: u32, bind: Bind) -> Result<u16, Denial> {
        let program = self.programs.entry(slot).or_default();
        if program.ports.len() >= MAX_PORTS || program.ports.contains_key(&token) {
            return Err(Denial::Exhausted);
        }
        if bind.port != 0 && bind.port < first_unprivileged() && !is_privileged(lease) {
            return Err(Denial::NotPermitted);
        }
        let port = self.board.bind(slot.into(), bind).map_err(Denial::from)?;
        program.ports.insert(token, Bind { port, ..bind });
        Ok(port)
    }

    fn release(&mut self, slot: u8, token: u32) {
        let bind = self.programs.get_mut(&slot).and_then(|program| program.ports.remove(&token));
        if let Some(bind) = bind {
            self.board.release(slot.into(), bind);
        }
    }

    fn listen(&mut self, slot: u8, listen: Listen) -> Result<(), Denial> {
        let program = self.programs.entry(slot).or_default();
        let is_reserved = listen.service.port().is_none_or(|(space, port)| {
            program.ports.values().any(|bind| is_same_port(bind, space, port, listen.address))
        });
        if !is_reserved {
            return Err(Denial::NotPermitted);
        }
        self.board.listen(slot.into(), listen).map_err(Denial::from)
    }
}

impl From<BindError> for Denial {
    fn from(error: BindError) -> Self {
        match error {
            BindError::InUse => Self::InUse,
            BindError::NoneFree => Self::Exhausted,
        }
    }
}

/// Whether who reserved a port may listen there: at the same address, or at one of a wildcard's.
fn is_same_port(bind: &Bind, space: PortSpace, port: u16, address: ListenAddress) -> bool {
    let covers = match (bind.address, address) {
        (ListenAddress::Any, _) => true,
        (ListenAddress::AnyV4, ListenAddress::Ip(ip)) => ip.is_ipv4(),
        (ListenAddress::AnyV6, ListenAddress::Ip(ip)) => ip.is_ipv6(),
        (reserved, wanted) => reserved == wanted,
    };
    (bind.space, bind.port) == (space, port) && covers
}

/// The first port that anybody may have, as this network namespace has it for TCP.
fn first_unprivileged() -> u16 {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    setting.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(FIRST_UNPRIVILEGED)
}

/// Whether the program belongs to root, of our user namespace.
fn is_privileged(lease: &Channel) -> bool {
    lease.peer().is_ok_and(|peer| peer.uid == 0)
}

fn now() -> Instant {
    Instant::from_nanos(::io::clock::now_ns())
}
