//! Memory windows: rights on a part of a region, given and taken back by work requests.

use std::sync::atomic::{AtomicU32, Ordering};

use nic::verbs::{CreateError, Mw, MwType};

use super::context::Context;
use super::domain::ProtectionDomain;

/// A memory window. [`Work::bind`](super::Work::bind) puts it over a part of a region.
///
/// ```
/// # use std::time::Duration;
/// # use host::{Access, Context, Data, MwType, QpType, Remote, Status, Work, devices};
/// # host::slot::start_in_child()?;
/// # let device = &devices()?[0];
/// # let server = Context::open(device)?.protection_domain()?;
/// # let server_queue = server.context().completion_queue(16)?;
/// # let server_qp = server.queue_pair(QpType::Rc, &server_queue).build()?;
/// # let client = Context::open(device)?.protection_domain()?;
/// # let client_queue = client.context().completion_queue(16)?;
/// # let client_qp = client.queue_pair(QpType::Rc, &client_queue).build()?;
/// # client_qp.connect(&server_qp.endpoint())?;
/// # server_qp.connect(&client_qp.endpoint())?;
/// // Peers may not access the region as such, but windows may be put over parts of it.
/// let memory = server.register(4096, Access { window_bind: true, ..Access::LOCAL })?;
/// let window = server.memory_window(MwType::Type2)?;
/// let rights = Access { remote_write: true, ..Access::default() };
/// server_qp.post(&Work::bind(&window, memory.slice(1024..2048)?, rights))?;
/// assert!(server_queue.wait(Duration::from_secs(10))?.is_success());
///
/// let to = Remote { address: memory.remote().address + 1024, rkey: window.rkey() };
/// client_qp.post(&Work::write(Data::Inline(&[b"inside"]), to))?;
/// assert!(client_queue.wait(Duration::from_secs(10))?.is_success());
///
/// server_qp.post(&Work::invalidate(&window))?;
/// assert!(server_queue.wait(Duration::from_secs(10))?.is_success());
/// client_qp.post(&Work::write(Data::Inline(&[b"too late"]), to))?;
/// assert_eq!(client_queue.wait(Duration::from_secs(10))?.status, Status::RemoteAccessError);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A region whose owner drops it while a window covers it goes with the window.
#[derive(Debug)]
pub struct MemoryWindow {
    pd: ProtectionDomain,
    mw: Mw,
    mw_type: MwType,
    rkey: AtomicU32,
}

impl MemoryWindow {
    pub(super) fn new(pd: ProtectionDomain, mw_type: MwType) -> Result<Self, CreateError> {
        let (mw, rkey) = pd.adapter().alloc_mw(pd.handle(), mw_type)?;
        Ok(Self { pd, mw, mw_type, rkey: AtomicU32::new(rkey) })
    }

    /// Its kind: type 1 is bound by whoever has it, and its peers are all of the protection domain's; type 2
    /// belongs to the queue pair that it was bound on, and can be invalidated.
    pub fn mw_type(&self) -> MwType {
        self.mw_type
    }

    /// The key of the bind that was posted last; peers may use it once that is complete.
    pub fn rkey(&self) -> u32 {
        self.rkey.load(Ordering::Relaxed)
    }

    pub(super) fn handle(&self) -> Mw {
        self.mw
    }

    pub(super) fn context(&self) -> &Context {
        self.pd.context()
    }

    /// The key of the next bind: its low byte is the consumer's to choose, and each bind has another.
    pub(super) fn next_rkey(&self) -> u32 {
        let rkey = self.rkey();
        rkey & !0xFF | u32::from((rkey as u8).wrapping_add(1))
    }

    /// Notes that a bind with this key was posted.
    pub(super) fn posted(&self, rkey: u32) {
        self.rkey.store(rkey, Ordering::Relaxed);
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        let _ = self.pd.adapter().dealloc_mw(self.mw);
        self.pd.context().clear_graves();
    }
}
