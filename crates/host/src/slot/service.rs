//! The service's side: one process per network namespace that makes the sockets and hands them out.
//!
//! It never touches a packet but those of [connection management](super::management). Its loop waits for
//! these, and for programs to come, to ask, and to go.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ::io::channel::{Channel, Listener, Received};
use ::io::poll::{Interest, Poller};
use ::io::reuseport::{ReuseportGroup, Steering};
use ::io::udp::BindError;
use wire::ROCE_V2_PORT;

use super::management::Management;
use super::protocol::{self, MAX_MESSAGE};
use super::slots::Slots;
use super::{SLOTS, address};

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
        Ok(group) => {
            let management = Management::new(&group)?;
            Service::new(listener, Slots::new(group), Some(management)).run(stay)
        }
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
    let mut service = Service::new(listener, Slots::none(reason.clone()), None);
    service.run(false)?;
    Err(ServiceError::Port(reason))
}

/// A connected program.
#[derive(Debug)]
struct Client {
    channel: Channel,
    since: Instant,
    slot: Option<u8>,
}

/// What ended a sleep.
struct Ready {
    clients: Vec<bool>,
    datagrams: bool,
    addresses: bool,
}

#[derive(Debug)]
struct Service {
    listener: Listener,
    slots: Slots,
    /// None where there are no slots either.
    management: Option<Management>,
    clients: Vec<Client>,
    idle_since: Instant,
}

impl Service {
    fn new(listener: Listener, slots: Slots, management: Option<Management>) -> Self {
        Self { listener, slots, management, clients: Vec::new(), idle_since: Instant::now() }
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
            self.hear(&ready.clients);
            self.manage(&ready);
            self.slots.renew();
        }
    }

    /// Sleeps until somebody comes, asks or goes, a datagram arrives, or something is due.
    fn wait(&self) -> io::Result<Ready> {
        let mut poller = Poller::new();
        poller.add(self.listener.as_fd(), Interest::Readable);
        for client in &self.clients {
            poller.add(client.channel.as_fd(), Interest::Readable);
        }
        let management = self.management.as_ref();
        let mut add = |descriptor| poller.add(descriptor, Interest::Readable);
        let datagrams = management.map(|management| add(management.socket()));
        let addresses = management.and_then(Management::watch).map(add);
        let due = management.and_then(Management::patience);
        let timeout = self.patience().map(|timeout| timeout.as_nanos() as u64);
        poller.wait([timeout, due].into_iter().flatten().min())?;
        let is_ready = |index: Option<usize>| index.is_some_and(|index| poller.is_ready(index));
        Ok(Ready {
            clients: (1..=self.clients.len()).map(|index| poller.is_ready(index)).collect(),
            datagrams: is_ready(datagrams),
            addresses: is_ready(addresses),
        })
    }

    /// How long to sleep at most, as far as clients and slots are concerned.
    fn patience(&self) -> Option<Duration> {
        match () {
            () if self.slots.is_renewing() => Some(RENEW_INTERVAL),
            () if self.clients.iter().any(|client| client.slot.is_none()) => Some(ASKING_TIME),
            () if self.clients.is_empty() => Some(LINGER),
            () => None,
        }
    }

    /// Serves QP 1.
    fn manage(&mut self, ready: &Ready) {
        let Some(management) = &mut self.management else { return };
        if ready.addresses {
            management.follow_addresses();
        }
        if ready.datagrams {
            management.receive();
        }
        management.serve();
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
        let Self { slots, management, clients, .. } = self;
        clients.retain_mut(|client| {
            let stirred = ready.get(index).copied().unwrap_or(false);
            index += 1;
            let stays = if stirred { client.hear(slots, management.as_mut()) } else { client.may_wait() };
            if let (false, Some(slot)) = (stays, client.slot) {
                if let Some(management) = management {
                    management.leave(slot);
                }
                slots.give_back(slot);
            }
            stays
        });
    }
}

impl Client {
    /// Takes what the client says; false if it is to be forgotten.
    fn hear(&mut self, slots: &mut Slots, management: Option<&mut Management>) -> bool {
        let mut buffer = [0; MAX_MESSAGE];
        let length = match self.channel.receive(&mut buffer) {
            Ok(Received::Nothing) => return true,
            Ok(Received::Message(length, _)) => length,
            Ok(Received::Closed) | Err(_) => return false,
        };
        match (self.slot, management) {
            (None, _) if protocol::is_request(&buffer[..length]) => {
                self.slot = slots.grant(&self.channel).unwrap_or(None);
                self.slot.is_some()
            }
            (Some(slot), Some(management)) => management.hear(slot, &self.channel, &buffer[..length]).is_ok(),
            _ => false,
        }
    }

    fn may_wait(&self) -> bool {
        self.slot.is_some() || self.since.elapsed() < ASKING_TIME
    }
}
