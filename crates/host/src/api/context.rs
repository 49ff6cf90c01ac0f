//! Devices, open devices, and what they tell.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::io::poll::{Interest, Poller};
use nic::Counters;
use nic::verbs::{AsyncEvent, CreateError, GidEntry, Limits, Mtu, PortState};
use wire::Gid;

use super::completion::{CompletionQueue, EventChannel};
use super::domain::ProtectionDomain;
use super::region::Grave;
use crate::adapter::Adapter;
use crate::channel::Channel;
use crate::cm::ConnectionManager;
use crate::config::ConfigError;
use crate::device::{Device, OpenError};
use crate::gids::GID_TABLE_LENGTH;
use crate::link::LinkCounters;

/// The devices of this machine: always one, which needs no hardware. Its name, faults and capture file
/// come from the environment ([`config::variable`](crate::config::variable)).
pub fn devices() -> Result<Vec<Device>, ConfigError> {
    Ok(vec![Device::from_environment()?])
}

/// An open device. Clones are the same one; everything made from it keeps it open.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    adapter: Adapter,
    device: Device,
    /// Regions whose owner is gone while a window still covers them. None is left when the last window and
    /// queue pair is gone, both of which keep the context.
    graves: Mutex<Vec<Grave>>,
}

/// What there is to know of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whether it can be used.
    pub state: PortState,
    /// The largest path MTU.
    pub max_mtu: Mtu,
    /// How many entries the GID table has, empty ones included.
    pub gid_table_length: usize,
}

impl Context {
    /// Opens a device.
    pub fn open(device: &Device) -> Result<Self, OpenError> {
        let adapter = device.open()?;
        // Nobody shall sleep in a read that another thread was faster with.
        rustix::io::ioctl_fionbio(adapter.async_events(), true).map_err(io::Error::from)?;
        let graves = Mutex::default();
        Ok(Self { inner: Arc::new(Inner { adapter, device: device.clone(), graves }) })
    }

    /// The device that was opened.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// What the device can do.
    pub fn limits(&self) -> Limits {
        self.adapter().limits()
    }

    /// The port.
    pub fn port(&self) -> Port {
        let (state, max_mtu) = self.adapter().port();
        Port { state, max_mtu, gid_table_length: GID_TABLE_LENGTH }
    }

    /// The GID table: the addresses by which peers reach this device, with their indices.
    pub fn gids(&self) -> Vec<(u8, GidEntry)> {
        (0..GID_TABLE_LENGTH as u8).filter_map(|index| Some((index, self.adapter().gid(index)?))).collect()
    }

    /// The index of a GID.
    pub fn gid_index(&self, gid: Gid) -> Option<u8> {
        self.gids().into_iter().find(|(_, entry)| entry.gid == gid).map(|(index, _)| index)
    }

    /// What the adapter has done.
    pub fn counters(&self) -> Counters {
        self.adapter().counters()
    }

    /// What the link dropped or could not send.
    pub fn link_counters(&self) -> LinkCounters {
        self.adapter().link_counters()
    }

    /// Nanoseconds of the clock that completions are stamped with.
    pub fn clock(&self) -> u64 {
        self.adapter().clock()
    }

    /// Serves the wire once: takes what has arrived, sends what is ready. Polling a completion queue does
    /// it too, and a thread in the background if nobody does; this is for those who watch memory.
    pub fn progress(&self) {
        self.adapter().progress();
    }

    /// Connection management on this device, for programs that run their connections themselves.
    pub fn connection_manager(&self) -> io::Result<ConnectionManager> {
        self.adapter().connection_manager()
    }

    /// Makes a protection domain.
    pub fn protection_domain(&self) -> Result<ProtectionDomain, CreateError> {
        ProtectionDomain::new(self.clone())
    }

    /// Makes a completion queue of at least `capacity` entries.
    pub fn completion_queue(&self, capacity: u32) -> Result<CompletionQueue, CreateError> {
        CompletionQueue::new(self.clone(), capacity)
    }

    /// Makes a completion channel, on which a thread can wait for the events of several completion queues.
    pub fn completion_channel(&self) -> io::Result<EventChannel> {
        EventChannel::new(self.clone())
    }

    /// The asynchronous events.
    pub fn async_events(&self) -> AsyncEvents<'_> {
        AsyncEvents { context: self }
    }

    pub(super) fn adapter(&self) -> &Adapter {
        &self.inner.adapter
    }

    /// Whether both are the same open device.
    pub(super) fn is(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Takes over a region that cannot be deregistered yet.
    pub(super) fn bury(&self, grave: Grave) {
        self.inner.graves.lock().unwrap_or_else(PoisonError::into_inner).push(grave);
    }

    /// Deregisters what can be by now.
    pub(super) fn clear_graves(&self) {
        let mut graves = self.inner.graves.lock().unwrap_or_else(PoisonError::into_inner);
        graves.retain_mut(|grave| !grave.release(self.adapter()));
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("device", &self.inner.device.name()).finish_non_exhaustive()
    }
}

/// The asynchronous events of an open device. Their descriptor becomes readable when there is one.
#[derive(Clone, Copy, Debug)]
pub struct AsyncEvents<'a> {
    context: &'a Context,
}

impl AsyncEvents<'_> {
    /// The next event, for which it waits at most so long; nothing if none came.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<AsyncEvent>> {
        pop_by(self.context.adapter().async_events(), Instant::now().checked_add(timeout))
    }
}

impl AsFd for AsyncEvents<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.context.adapter().async_events().as_fd()
    }
}

/// Takes the next entry of a channel whose descriptor does not block; nothing if none comes in time.
pub(super) fn pop_by<T>(channel: &Channel<T>, deadline: Option<Instant>) -> io::Result<Option<T>> {
    loop {
        match channel.pop() {
            Ok(entry) => return Ok(Some(entry)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(None);
        }
        let mut poller = Poller::new();
        poller.add(channel.as_fd(), Interest::Readable);
        poller.wait(left.map(|left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)))?;
    }
}
