//! Protection domains, and the objects that have no more to them than belonging to one.

use std::ptr::NonNull;
use std::sync::Arc;

use nic::verbs::{Access, AddressVector, Ah, CreateError, MwType, Pd, QpType, RegisterError, SrqAttributes};

use super::completion::CompletionQueue;
use super::context::Context;
use super::endpoint::QpEndpoint;
use super::queue_pair::QueuePairBuilder;
use super::region::{Buffer, MemoryRegion};
use super::shared_receive::SharedReceiveQueue;
use super::window::MemoryWindow;
use crate::adapter::Adapter;

/// What holds together the queue pairs, regions and windows that may be used with each other. Clones are the
/// same one.
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    pd: Pd,
}

impl ProtectionDomain {
    pub(super) fn new(context: Context) -> Result<Self, CreateError> {
        let pd = context.adapter().alloc_pd()?;
        Ok(Self { inner: Arc::new(Inner { context, pd }) })
    }

    /// The device it is of.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Registers new, zeroed memory with these rights.
    ///
    /// # Panics
    /// If that much memory cannot be allocated, as with any collection.
    pub fn register(&self, length: usize, access: Access) -> Result<MemoryRegion, RegisterError> {
        MemoryRegion::new(self.clone(), Buffer::zeroed(length), None, access)
    }

    /// As [`register`](Self::register), with `iova` as what work requests and peers call its first byte.
    pub fn register_at(
        &self,
        iova: u64,
        length: usize,
        access: Access,
    ) -> Result<MemoryRegion, RegisterError> {
        MemoryRegion::new(self.clone(), Buffer::zeroed(length), Some(iova), access)
    }

    /// Registers memory that is there already, a shared mapping for instance.
    ///
    /// # Safety
    ///
    /// Until the region is dropped, and the last window that was bound to it, the memory stays readable and
    /// writable, and nobody accesses it but through the region, or so that simultaneous writes by the adapter
    /// do no harm.
    pub unsafe fn register_foreign(
        &self,
        start: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<MemoryRegion, RegisterError> {
        MemoryRegion::new(self.clone(), Buffer::foreign(start, length), None, access)
    }

    /// Begins a queue pair whose sends and receives complete on `queue`.
    pub fn queue_pair(&self, qp_type: QpType, queue: &CompletionQueue) -> QueuePairBuilder {
        QueuePairBuilder::new(self.clone(), qp_type, queue.clone())
    }

    /// Makes a shared receive queue.
    pub fn shared_receive_queue(&self, attributes: SrqAttributes) -> Result<SharedReceiveQueue, CreateError> {
        SharedReceiveQueue::new(self.clone(), attributes)
    }

    /// Makes a memory window.
    pub fn memory_window(&self, mw_type: MwType) -> Result<MemoryWindow, CreateError> {
        MemoryWindow::new(self.clone(), mw_type)
    }

    /// Makes an address handle: where datagrams are sent.
    pub fn address_handle(&self, path: AddressVector) -> Result<AddressHandle, CreateError> {
        let ah = self.adapter().create_ah(self.handle(), path)?;
        Ok(AddressHandle { inner: Arc::new(AhInner { pd: self.clone(), ah }) })
    }

    /// Makes an address handle for a peer, with the GID of index `source`.
    pub fn address_handle_to(&self, peer: &QpEndpoint, source: u8) -> Result<AddressHandle, CreateError> {
        self.address_handle(path_to(peer, source))
    }

    pub(super) fn handle(&self) -> Pd {
        self.inner.pd
    }

    pub(super) fn adapter(&self) -> &Adapter {
        self.inner.context.adapter()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Everything that belongs to it held a clone, so it is unused.
        let _ = self.context.adapter().dealloc_pd(self.pd);
    }
}

/// Where datagrams are sent. Clones are the same one.
///
/// ```
/// use std::time::Duration;
///
/// use host::{Access, Context, Data, QpType, Work, devices};
///
/// # host::slot::start_in_child()?;
/// # let device = &devices()?[0];
/// let receiver = Context::open(device)?.protection_domain()?;
/// let received = receiver.context().completion_queue(16)?;
/// let target = receiver.queue_pair(QpType::Ud, &received).build()?;
/// target.activate()?;
/// // Datagrams arrive with 40 bytes in front, which tell where they came from.
/// let memory = receiver.register(4096, Access::LOCAL)?;
/// target.receive(0, &[memory.slice(..)?])?;
/// let peer = target.endpoint();
///
/// let sender = Context::open(device)?.protection_domain()?;
/// let sent = sender.context().completion_queue(16)?;
/// let qp = sender.queue_pair(QpType::Ud, &sent).build()?;
/// qp.activate()?;
/// let handle = sender.address_handle_to(&peer, 0)?;
/// qp.post(&Work::send(Data::Inline(&[b"to whom it may concern"])).to(&handle, &peer))?;
///
/// let arrived = received.wait(Duration::from_secs(10))?;
/// assert_eq!(arrived.source_qp, qp.number());
/// assert_eq!(memory.to_vec(40..arrived.byte_length as usize)?, b"to whom it may concern");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AddressHandle {
    inner: Arc<AhInner>,
}

#[derive(Debug)]
struct AhInner {
    pd: ProtectionDomain,
    ah: Ah,
}

impl AddressHandle {
    pub(super) fn handle(&self) -> Ah {
        self.inner.ah
    }

    pub(super) fn context(&self) -> &Context {
        self.inner.pd.context()
    }
}

impl Drop for AhInner {
    fn drop(&mut self) {
        // Datagrams that were posted with it still go where it pointed.
        let _ = self.pd.adapter().destroy_ah(self.ah);
    }
}

/// The path to a peer.
pub(super) fn path_to(peer: &QpEndpoint, source: u8) -> AddressVector {
    AddressVector {
        destination: peer.gid,
        source_gid_index: source,
        hop_limit: 64,
        is_global: true,
        port: 1,
        ..AddressVector::default()
    }
}
