//! The open device: its tables of functions, and its objects by handle.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    fs::File,
    mem::offset_of,
    ops::Deref,
    os::fd::AsRawFd,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

use host::Adapter;
use nic::verbs;
use wire::Qpn;

use super::{
    completion::{self, Cq},
    device::{self, Device},
    extended_cq, memory, port, post,
    queue_pair::{self, Qp},
    receive::{self, Srq},
};
use crate::abi::{
    layout::Zeroed,
    object::{Object, Visible},
    types::context::{ibv_context, ibv_context_ops, verbs_context},
};

/// What `abi_compat` holds to say that the second table is there.
const EXTENDED: *mut c_void = usize::MAX as *mut c_void;

/// An open device.
///
/// The program holds the address of the `ibv_context` at the end of the first field.
#[repr(C)]
pub(crate) struct Context {
    table: Visible<verbs_context>,
    pub(super) device: &'static Device,
    pub(super) adapter: Adapter,
    pub(super) objects: Objects,
    /// The longest scatter/gather list of any queue.
    pub(super) max_sge: u32,
    /// What the program sees as `cmd_fd`, and may duplicate: it stands for no driver.
    _command: Option<File>,
}

impl Context {
    /// Hands out a device whose adapter was opened.
    pub(super) fn hand_out(device: &'static Device, adapter: Adapter) -> *mut ibv_context {
        let command = File::open("/dev/null").ok();
        let table = verbs_context {
            context: ibv_context {
                device: device.c(),
                ops: ops(),
                cmd_fd: command.as_ref().map_or(-1, AsRawFd::as_raw_fd),
                async_fd: adapter.async_events().as_raw_fd(),
                num_comp_vectors: completion::VECTORS,
                abi_compat: EXTENDED,
                ..ibv_context::zeroed()
            },
            ..extended_ops()
        };
        let limits = adapter.limits();
        let context = Box::new(Self {
            table: Visible::new(table),
            device,
            adapter,
            objects: Objects::default(),
            max_sge: limits.max_sge.max(limits.max_srq_sge),
            _command: command,
        });
        let table = Box::into_raw(context).cast::<verbs_context>();
        // SAFETY: the table is the first field of what was just made.
        unsafe { &raw mut (*table).context }
    }

    /// Takes the device back, which closes the adapter and unmakes all that is left of its objects.
    ///
    /// # Safety
    ///
    /// `c` came from [`Context::hand_out`], and neither it nor any of its objects is used any more.
    pub(super) unsafe fn take_back(c: *mut ibv_context) {
        // SAFETY: the caller promises that the context is alive and unused.
        drop(unsafe { Box::from_raw(ContextRef::of(c).0.as_ptr()) });
    }

    /// What the program sees of it.
    pub(super) fn c(&self) -> *mut ibv_context {
        // SAFETY: the offset stays within the table.
        unsafe { &raw mut (*self.table.get()).context }
    }
}

/// A context that stays open while its objects are used, says `ibv_close_device(3)`.
#[derive(Clone, Copy)]
pub(crate) struct ContextRef(NonNull<Context>);

impl ContextRef {
    /// The context that a program names.
    ///
    /// # Safety
    ///
    /// `c` came from [`Context::hand_out`], and the device is not closed while the result is used.
    pub(super) unsafe fn of(c: *mut ibv_context) -> Self {
        // SAFETY: the program's part lies at this distance from the start; a context that is open is not null.
        Self(unsafe { NonNull::new_unchecked(c.byte_sub(offset_of!(verbs_context, context)).cast()) })
    }
}

/// The adapter of an open device.
///
/// # Safety
///
/// `context` is an open device, and is not closed while the result is used.
pub(in crate::abi) unsafe fn adapter<'a>(context: *mut ibv_context) -> &'a Adapter {
    // SAFETY: the caller's promises are passed on.
    unsafe { &ContextRef::of(context).0.as_ref().adapter }
}

impl PartialEq for ContextRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Deref for ContextRef {
    type Target = Context;

    fn deref(&self) -> &Context {
        // SAFETY: whoever made the reference promised that the context stays open.
        unsafe { self.0.as_ref() }
    }
}

/// Threads share a context through references.
const _: fn(&Context) -> &(dyn Sync + '_) = |context| context;

// SAFETY: it is a reference to what threads may share.
unsafe impl Send for ContextRef {}
// SAFETY: as above.
unsafe impl Sync for ContextRef {}

/// The objects that events tell of, by handle.
#[derive(Default)]
pub(super) struct Objects {
    pub cqs: Registry<verbs::Cq, Cq>,
    pub qps: Registry<Qpn, Qp>,
    pub srqs: Registry<verbs::Srq, Srq>,
}

/// Objects of one kind. An object is in it from before the program knows it until it is destroyed.
pub(super) struct Registry<H, O>(Mutex<BTreeMap<H, NonNull<O>>>);

impl<H: Ord, O> Registry<H, O> {
    /// Adds an object.
    pub fn add(&self, handle: H, object: &O) {
        self.lock().insert(handle, object.into());
    }

    /// Removes an object that is about to be freed; nobody looks at it any more when this returns.
    pub fn remove(&self, handle: H) {
        self.lock().remove(&handle);
    }

    /// Looks at an object, unless it was removed.
    pub fn look<R>(&self, handle: H, look: impl FnOnce(&O) -> R) -> Option<R> {
        let objects = self.lock();
        // SAFETY: what is in the registry is alive, and stays there while the lock is held.
        objects.get(&handle).map(|object| look(unsafe { object.as_ref() }))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<H, NonNull<O>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H, O> Default for Registry<H, O> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

// SAFETY: objects are shared between threads, and only looked at under the lock.
unsafe impl<H: Send, O: Sync> Send for Registry<H, O> {}
// SAFETY: as above.
unsafe impl<H: Send, O: Sync> Sync for Registry<H, O> {}

/// The first table. Slots that are left empty were called by headers of long ago, and are empty in the genuine library.
fn ops() -> ibv_context_ops {
    ibv_context_ops {
        _compat_query_device: Some(device::query_device),
        _compat_query_port: Some(port::query_port_short),
        alloc_mw: Some(memory::alloc_mw),
        bind_mw: Some(post::bind_mw),
        dealloc_mw: Some(memory::dealloc_mw),
        poll_cq: Some(completion::poll_cq),
        req_notify_cq: Some(completion::req_notify_cq),
        post_srq_recv: Some(post::post_srq_recv),
        post_send: Some(post::post_send),
        post_recv: Some(post::post_recv),
        ..ibv_context_ops::zeroed()
    }
}

/// The second table. At an empty slot the inline functions of `verbs.h` answer `EOPNOTSUPP`.
fn extended_ops() -> verbs_context {
    verbs_context {
        query_port: Some(port::query_port),
        query_rt_values: Some(device::query_rt_values),
        create_cq_ex: Some(extended_cq::create_cq_ex),
        query_device_ex: Some(device::query_device_ex),
        create_qp_ex: Some(queue_pair::create_qp_ex),
        create_srq_ex: Some(receive::create_srq_ex),
        sz: size_of::<verbs_context>(),
        ..verbs_context::zeroed()
    }
}
