//! Work requests.

use nic::verbs::{
    Access, Binding, DatagramDestination, MwType, PostError, RecvRequest, Remote, SendData, SendFlags,
    SendOperation, SendRequest, Sge,
};
use smallvec::SmallVec;
use wire::Qpn;

use super::context::Context;
use super::domain::AddressHandle;
use super::endpoint::QpEndpoint;
use super::region::RegionSlice;
use super::window::MemoryWindow;

/// Elements of one request; those of most fit without an allocation.
pub(super) type Elements = SmallVec<[Sge; 4]>;

/// The payload of a request: where it is, or where it goes to.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// In registered memory, which is read when it is sent.
    Regions(&'a [RegionSlice<'a>]),
    /// Here; copied when it is posted.
    Inline(&'a [&'a [u8]]),
}

impl<'a> From<&'a [RegionSlice<'a>]> for Data<'a> {
    fn from(slices: &'a [RegionSlice<'a>]) -> Self {
        Self::Regions(slices)
    }
}

impl<'a, const N: usize> From<&'a [RegionSlice<'a>; N]> for Data<'a> {
    fn from(slices: &'a [RegionSlice<'a>; N]) -> Self {
        Self::Regions(slices)
    }
}

/// A request on a send queue, to be given to [`QueuePair::post`](super::QueuePair::post).
///
/// It ends in a completion, unless it is [`unsignaled`](Work::unsignaled) and succeeds.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    wr_id: u64,
    operation: SendOperation,
    data: Data<'a>,
    flags: SendFlags,
    destination: Option<(&'a AddressHandle, Qpn, u32)>,
    window: Option<&'a MemoryWindow>,
}

impl<'a> Work<'a> {
    /// A request to do `operation`.
    pub fn new(operation: SendOperation, data: impl Into<Data<'a>>) -> Self {
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        Self { wr_id: 0, operation, data: data.into(), flags, destination: None, window: None }
    }

    /// Sends a message.
    pub fn send(data: impl Into<Data<'a>>) -> Self {
        Self::new(SendOperation::Send, data)
    }

    /// Sends a message with a word for the receiver's completion.
    pub fn send_with_immediate(data: impl Into<Data<'a>>, immediate: u32) -> Self {
        Self::new(SendOperation::SendWithImmediate(immediate), data)
    }

    /// Sends a message that takes a key of the receiver's back.
    pub fn send_with_invalidate(data: impl Into<Data<'a>>, rkey: u32) -> Self {
        Self::new(SendOperation::SendWithInvalidate(rkey), data)
    }

    /// Writes to the peer's memory.
    pub fn write(data: impl Into<Data<'a>>, to: Remote) -> Self {
        Self::new(SendOperation::Write(to), data)
    }

    /// Writes to the peer's memory, and completes one of its receives.
    pub fn write_with_immediate(data: impl Into<Data<'a>>, to: Remote, immediate: u32) -> Self {
        Self::new(SendOperation::WriteWithImmediate(to, immediate), data)
    }

    /// Reads from the peer's memory.
    pub fn read(into: &'a [RegionSlice<'a>], from: Remote) -> Self {
        Self::new(SendOperation::Read(from), into)
    }

    /// Replaces a word of the peer's memory by `swap` if it is `compare`; `into` gets what it was.
    pub fn compare_swap(into: &'a [RegionSlice<'a>], word: Remote, compare: u64, swap: u64) -> Self {
        Self::new(SendOperation::CompareSwap { remote: word, compare, swap }, into)
    }

    /// Adds to a word of the peer's memory; `into` gets what it was.
    pub fn fetch_add(into: &'a [RegionSlice<'a>], word: Remote, add: u64) -> Self {
        Self::new(SendOperation::FetchAdd { remote: word, add }, into)
    }

    /// Puts a window over a part of a region. Peers use it by [`MemoryWindow::rkey`], which is new with each
    /// request of this kind.
    pub fn bind(window: &'a MemoryWindow, part: RegionSlice<'_>, access: Access) -> Self {
        let binding =
            Binding { lkey: part.lkey(), address: part.address(), length: part.len() as u64, access };
        Self::bind_to(window, binding)
    }

    /// Takes a type 1 window away from what it covers. Those of type 2 are invalidated.
    pub fn unbind(window: &'a MemoryWindow) -> Self {
        Self::bind_to(window, Binding { lkey: 0, address: 0, length: 0, access: Access::default() })
    }

    fn bind_to(window: &'a MemoryWindow, binding: Binding) -> Self {
        let operation =
            SendOperation::BindWindow { window: window.handle(), rkey: window.next_rkey(), binding };
        Self { window: Some(window), ..Self::new(operation, Data::Regions(&[])) }
    }

    /// Takes the rights of a bound window of type 2 back.
    pub fn invalidate(window: &'a MemoryWindow) -> Self {
        debug_assert_eq!(window.mw_type(), MwType::Type2, "windows of type 1 are unbound");
        Self::new(SendOperation::LocalInvalidate(window.rkey()), Data::Regions(&[]))
    }

    /// What the completion calls it; 0 if it is not said.
    #[must_use]
    pub fn id(self, wr_id: u64) -> Self {
        Self { wr_id, ..self }
    }

    /// Completes only if it fails.
    #[must_use]
    pub fn unsignaled(mut self) -> Self {
        self.flags.signaled = false;
        self
    }

    /// Wakes a receiver that waits for such messages only.
    #[must_use]
    pub fn solicited(mut self) -> Self {
        self.flags.solicited = true;
        self
    }

    /// Waits for earlier reads and atomics.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.flags.fence = true;
        self
    }

    /// Goes to this peer: datagrams only.
    #[must_use]
    pub fn to(self, handle: &'a AddressHandle, peer: &QpEndpoint) -> Self {
        self.to_group(handle, peer.qpn, peer.qkey)
    }

    /// Goes to this queue pair, or to all of a multicast group if that is [`Qpn::MULTICAST`]: datagrams only.
    #[must_use]
    pub fn to_group(self, handle: &'a AddressHandle, qpn: Qpn, qkey: u32) -> Self {
        Self { destination: Some((handle, qpn, qkey)), ..self }
    }

    /// Hands it to `post` as the adapter takes it.
    pub(super) fn as_request<R>(
        &self,
        context: &Context,
        post: impl FnOnce(&SendRequest<'_>) -> Result<R, PostError>,
    ) -> Result<R, PostError> {
        let others = self.destination.map(|(handle, ..)| handle.context());
        let others = others.into_iter().chain(self.window.map(MemoryWindow::context));
        if others.into_iter().any(|other| !other.is(context)) {
            return Err(PostError::UnknownHandle);
        }
        let gathered;
        let data = match self.data {
            Data::Regions(slices) => {
                gathered = elements(context, slices)?;
                SendData::Gather(&gathered)
            }
            Data::Inline(pieces) => SendData::Inline(pieces),
        };
        let destination =
            self.destination.map(|(ah, qpn, qkey)| DatagramDestination { ah: ah.handle(), qpn, qkey });
        let Self { wr_id, operation, flags, .. } = *self;
        let posted = post(&SendRequest { wr_id, operation, data, flags, destination })?;
        if let (Some(window), SendOperation::BindWindow { rkey, .. }) = (self.window, operation) {
            window.posted(rkey);
        }
        Ok(posted)
    }
}

/// A request on a receive queue.
#[derive(Clone, Copy, Debug)]
pub struct Receive<'a> {
    /// What the completion calls it.
    pub wr_id: u64,
    /// Where what arrives goes to. Datagrams have 40 bytes in front.
    pub scatter: &'a [RegionSlice<'a>],
}

impl Receive<'_> {
    /// Hands it to `post` as the adapter takes it.
    pub(super) fn as_request<R>(
        &self,
        context: &Context,
        post: impl FnOnce(&RecvRequest<'_>) -> Result<R, PostError>,
    ) -> Result<R, PostError> {
        let scatter = elements(context, self.scatter)?;
        post(&RecvRequest { wr_id: self.wr_id, scatter: &scatter })
    }
}

fn elements(context: &Context, slices: &[RegionSlice<'_>]) -> Result<Elements, PostError> {
    let element = |slice: &RegionSlice<'_>| {
        if !slice.context().is(context) {
            return Err(PostError::UnknownHandle);
        }
        let length = u32::try_from(slice.len()).map_err(|_| PostError::MessageTooLong)?;
        Ok(Sge { address: slice.address(), length, lkey: slice.lkey() })
    };
    slices.iter().map(element).collect()
}
