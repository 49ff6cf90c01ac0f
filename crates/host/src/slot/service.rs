//! The service's side: one process per network namespace that makes the sockets and hands them out.
//!
//! It never touches a packet. Its loop waits for programs to come, to ask, and to go.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ::io::channel::{Channel, Listener, Received};
use ::io::poll::{Interest, Poller};
use ::io::reuseport::{RenewError, ReuseportGroup, Steering};
use ::io::udp::BindError;
use wire::ROCE_V2_PORT;

use super::protocol::{self, Answer, MAX_MESSAGE};
use super::{RESERVED, SLOTS, address};

/// How long the service stays when nobody uses it.
const LINGER: Duration = Duration::from_secs(3);

/// Programs that may be connected at once, with or without a slot: more are closed at once.
const MAX_CLIENTS: usize = 2 * SLOTS;

/// How long a program that has connected may take to ask.
const ASKING_TIME: Duration = Duration::from_secs(5);

/// How often a socket that some process still holds is looked at again.
const RENEW_INTERVAL: Duration = Duration::from_millis(20);

/// Where the destination QPN is: the second word of the BTH (IBTA 9.2).
const STEERING: Steering = Steering { offset: 4, mask: SLOTS as u32 - 1 };

/// Why the service ended.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is one already.
    #[error("a slot service runs already in this network namespace")]
    AlreadyRunning,
    /// The port could not be had; programs that asked in the meantime were told so.
    #[error("{0}")]
    Port(String),
    /// The system refused something.
    #[error("the slot service cannot go on: {0}")]
    System(#[from] io::Error),
}

/// Serves until nobody has used it for a while, or for ever if `stay`.
pub fn serve(stay: bool) -> Result<(), ServiceError> {
    let listener = Listener::bind(&address()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => ServiceError::AlreadyRunning,
        _ => error.into(),
    })?;
    match ReuseportGroup::bind(ROCE_V2_PORT, SLOTS, STEERING) {
        Ok(group) => Service::new(listener, Slots::new(group)).run(stay),
        Err(error) => refuse_all(listener, &error),
    }
}

/// Tells everybody who asks for a while why there is no slot, then gives up.
fn refuse_all(listener: Listener, error: &BindError) -> Result<(), ServiceError> {
    let reason = match error {
        BindError::PortInUse { .. } => format!(
            "UDP port {ROCE_V2_PORT} is taken by another RoCE v2 stack: remove it (the kernel's: `rdma link \
             delete NAME`; `rdma link` and `ss -lunp` list the candidates), or run the program in a network \
             namespace of its own"
        ),
        error => format!("UDP port {ROCE_V2_PORT} cannot be bound: {error}"),
    };
    let mut service = Service::new(listener, Slots::none(reason.clone()));
    service.run(false)?;
    Err(ServiceError::Port(reason))
}

/// The slots there are.
#[derive(Debug)]
struct Slots {
    group: Result<ReuseportGroup, String>,
    /// Free slots. The one that was given back first is handed out first, so that a number rests.
    free: VecDeque<usize>,
    /// Slots given back whose socket is to be replaced.
    leaving: VecDeque<usize>,
}

impl Slots {
    fn new(group: ReuseportGroup) -> Self {
        let free = (0..SLOTS).filter(|slot| !RESERVED.contains(slot)).collect();
        Self { group: Ok(group), free, leaving: VecDeque::new() }
    }

    fn none(reason: String) -> Self {
        Self { group: Err(reason), free: VecDeque::new(), leaving: VecDeque::new() }
    }

    /// Hands out a slot on a connection.
    fn grant(&mut self, channel: &Channel) -> io::Result<Option<usize>> {
        self.renew();
        let group = match &self.group {
            Ok(group) => group,
            Err(reason) => return channel.send(&Answer::Refused(reason.clone()).emit(), &[]).map(|()| None),
        };
        let granted = self.free.pop_front().and_then(|slot| Some((slot, group.socket(slot)?)));
        let Some((slot, socket)) = granted else {
            let reason = format!(
                "all {} places on the RoCE v2 port are taken: end some programs",
                SLOTS - RESERVED.len()
            );
            return channel.send(&Answer::Refused(reason).emit(), &[]).map(|()| None);
        };
        channel.send(&Answer::Granted(slot as u8).emit(), &[socket.as_fd()])?;
        Ok(Some(slot))
    }

    fn give_back(&mut self, slot: usize) {
        self.leaving.push_back(slot);
        self.renew();
    }

    /// Replaces the sockets of slots given back, so that nothing of the last owner is left in them.
    fn renew(&mut self) {
        let Ok(group) = &mut self.group else { return };
        while let Some(&slot) = self.leaving.front() {
            match group.renew(slot) {
                Ok(()) => {
                    self.leaving.pop_front();
                    self.free.push_back(slot);
                }
                Err(RenewError::StillHeld | RenewError::OtherStillHeld(_)) => return,
                // Out of some resource: try again with the next interval.
                Err(_) => return,
            }
        }
    }
}

/// A connected program.
#[derive(Debug)]
struct Client {
    channel: Channel,
    since: Instant,
    slot: Option<usize>,
}

#[derive(Debug)]
struct Service {
    listener: Listener,
    slots: Slots,
    clients: Vec<Client>,
    idle_since: Instant,
}

impl Service {
    fn new(listener: Listener, slots: Slots) -> Self {
        Self { listener, slots, clients: Vec::new(), idle_since: Instant::now() }
    }

    fn run(&mut self, stay: bool) -> Result<(), ServiceError> {
        loop {
            if !self.clients.is_empty() {
                self.idle_since = Instant::now();
            } else if !stay && self.idle_since.elapsed() >= LINGER {
                return Ok(());
            }
            let ready = self.wait()?;
            self.accept()?;
            self.hear(&ready);
            self.slots.renew();
        }
    }

    /// Sleeps until somebody comes, asks or goes, or something is due. Tells which clients stirred.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let mut poller = Poller::new();
        poller.add(self.listener.as_fd(), Interest::Readable);
        for client in &self.clients {
            poller.add(client.channel.as_fd(), Interest::Readable);
        }
        let asking = self.clients.iter().any(|client| client.slot.is_none());
        let timeout = match () {
            () if !self.slots.leaving.is_empty() => Some(RENEW_INTERVAL),
            () if asking => Some(ASKING_TIME),
            () if self.clients.is_empty() => Some(LINGER),
            () => None,
        };
        poller.wait(timeout.map(|timeout| timeout.as_nanos() as u64))?;
        Ok((1..=self.clients.len()).map(|index| poller.is_ready(index)).collect())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok(Some(channel)) if self.clients.len() < MAX_CLIENTS => {
                    self.clients.push(Client { channel, since: Instant::now(), slot: None });
                }
                // One too many: it finds the connection closed.
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                // Out of descriptors: those who wait stay in the queue until somebody goes.
                Err(error) if self.clients.is_empty() => return Err(error),
                Err(_) => return Ok(()),
            }
        }
    }

    fn hear(&mut self, ready: &[bool]) {
        let mut index = 0;
        let slots = &mut self.slots;
        self.clients.retain_mut(|client| {
            let stirred = ready.get(index).copied().unwrap_or(false);
            index += 1;
            let stays = if stirred { client.hear(slots) } else { client.may_wait() };
            if let (false, Some(slot)) = (stays, client.slot) {
                slots.give_back(slot);
            }
            stays
        });
    }
}

impl Client {
    /// Takes what the client says; false if it is to be forgotten.
    fn hear(&mut self, slots: &mut Slots) -> bool {
        let mut buffer = [0; MAX_MESSAGE];
        match self.channel.receive(&mut buffer) {
            Ok(Received::Nothing) => true,
            Ok(Received::Message(length, _))
                if self.slot.is_none() && protocol::is_request(&buffer[..length]) =>
            {
                match slots.grant(&self.channel) {
                    Ok(Some(slot)) => {
                        self.slot = Some(slot);
                        true
                    }
                    Ok(None) | Err(_) => false,
                }
            }
            Ok(Received::Message(..) | Received::Closed) | Err(_) => false,
        }
    }

    fn may_wait(&self) -> bool {
        self.slot.is_some() || self.since.elapsed() < ASKING_TIME
    }
}
