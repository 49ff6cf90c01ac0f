//! The device as connection management uses it: opened once, for all ids.

use std::{
    ffi::c_int,
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use host::{
    Adapter,
    cm::{ConnectionManager, Reporter},
};
use nic::cm::CmId;
use parking_lot::Mutex;

use super::news::{ConnectionKey, Sink, Token};
use crate::abi::{
    errno::{Errno, pointer},
    types::{context::ibv_context, memory::ibv_pd},
    verbs,
};

/// An open device. It stays open as long as the process, since programs keep what they find in ids.
#[derive(Debug)]
pub(super) struct CmDevice {
    pub context: *mut ibv_context,
    /// What a program uses that makes no protection domain itself.
    pub pd: *mut ibv_pd,
    pub manager: ConnectionManager,
    number: u32,
    sink: Arc<Sink>,
}

// SAFETY: the pointers are handed to programs, which may use them in any thread.
unsafe impl Send for CmDevice {}
// SAFETY: as above.
unsafe impl Sync for CmDevice {}

/// The open device.
static OPEN: Mutex<Option<&'static CmDevice>> = Mutex::new(None);

impl CmDevice {
    /// The device, opened if this is the first time, or if another process has had it since a fork.
    pub fn get() -> Result<&'static Self, Errno> {
        let mut open = OPEN.lock();
        if let Some(device) = *open
            && !device.adapter().is_lost()
        {
            return Ok(device);
        }
        let device = Box::leak(Box::new(Self::open()?));
        *open = Some(device);
        Ok(device)
    }

    fn open() -> Result<Self, Errno> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let context = verbs::open()?;
        // SAFETY: it was just opened, and is never closed.
        let (adapter, pd) = unsafe { (verbs::adapter(context), verbs::alloc_pd(context)) };
        if pd.is_null() {
            return Err(Errno::last());
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let manager = adapter.connection_manager()?;
        Ok(Self { context, pd, manager, number, sink: Arc::new(Sink { device: number }) })
    }

    /// The adapter.
    pub fn adapter(&self) -> &Adapter {
        self.manager.adapter()
    }

    /// READs and atomics at once: those that a queue pair takes, and those that it has outstanding.
    pub fn read_limits(&self) -> (u8, u8) {
        let limits = self.adapter().limits();
        (limits.max_qp_rd_atom, limits.max_qp_init_rd_atom)
    }

    /// Who tells an id what happens to its connections.
    pub fn reporter(&self, token: Token) -> Reporter {
        Reporter { sink: self.sink.clone(), token: token.0 }
    }

    /// A connection's name among those of all devices.
    pub fn key(&self, connection: CmId) -> ConnectionKey {
        ConnectionKey { device: self.number, connection }
    }
}

/// `rdma_get_devices(3)`.
///
/// # Safety
///
/// `count` is valid or null.
pub(super) unsafe extern "C" fn get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    let list = CmDevice::get().map(|device| {
        if !count.is_null() {
            // SAFETY: the caller passes a valid place.
            unsafe { *count = 1 };
        }
        Box::into_raw(Box::new([device.context, null_mut()])).cast()
    });
    pointer(list)
}

/// `rdma_free_devices(3)`.
///
/// # Safety
///
/// `list` came from [`get_devices`].
pub(super) unsafe extern "C" fn free_devices(list: *mut *mut ibv_context) {
    // SAFETY: the caller passes what `get_devices` made.
    drop(unsafe { Box::from_raw(list.cast::<[*mut ibv_context; 2]>()) });
}
