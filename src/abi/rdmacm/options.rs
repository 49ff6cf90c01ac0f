//! Options of ids, and enhanced connection establishment.

use std::ffi::{c_int, c_void};

use nic::cm::{Ece, Path};

use super::id::{Id, Stage};
use crate::abi::{
    errno::{Errno, zero_or_minus_one},
    object::Object,
    types::{
        cm::*,
        constants::{IBV_QPT_RC, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND},
        queue_pair::ibv_ece,
    },
};

/// What a program set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    /// DSCP and ECN bits of what is sent.
    pub type_of_service: u8,
    /// Whether the port may be another's too, as long as one of both listens.
    pub reuse_address: bool,
    /// Whether an id that is bound to any address of IPv6 leaves those of IPv4 alone.
    pub one_family: bool,
    /// The ACK timeout of the queue pair, in place of the path's.
    pub ack_timeout: Option<u8>,
}

/// The longest ACK timeout there is; who asks for more means that.
const LONGEST_TIMEOUT: u8 = 31;

impl Options {
    /// A path as these options want it.
    pub fn route(&self, path: Path) -> Path {
        let life_time = self.ack_timeout.map_or(path.packet_life_time, |timeout| timeout.saturating_sub(1));
        Path { traffic_class: self.type_of_service, packet_life_time: life_time, ..path }
    }
}

/// `rdma_set_option(3)`.
///
/// # Safety
///
/// `id` is an id and `value` has `length` bytes.
pub(super) unsafe extern "C" fn set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's promises are passed on.
    zero_or_minus_one(unsafe { set(Id::of(id), (level, name), value, length) })
}

/// # Safety
///
/// `value` has `length` bytes.
unsafe fn set(id: &Id, option: (c_int, c_int), value: *const c_void, length: usize) -> Result<(), Errno> {
    let mut state = id.state();
    match option {
        (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => {
            // SAFETY: the caller passes a value of that length.
            state.options.type_of_service = unsafe { read(value, length)? };
        }
        (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => {
            // SAFETY: the caller passes a value of that length.
            let wanted = unsafe { read::<c_int>(value, length)? } != 0;
            // Only one of those that share a port listens, and who does so already is it.
            if wanted && matches!(state.stage, Stage::Listening(_)) {
                return Err(Errno::INVALID);
            }
            state.options.reuse_address = wanted;
        }
        (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => {
            // SAFETY: the caller passes a value of that length.
            let wanted = unsafe { read::<c_int>(value, length)? } != 0;
            if !matches!(state.stage, Stage::Idle | Stage::Bound) {
                return Err(Errno::INVALID);
            }
            state.options.one_family = wanted;
        }
        (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => {
            if !matches!(id.seen(|c| c.qp_type), IBV_QPT_RC | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV) {
                return Err(Errno::INVALID);
            }
            // SAFETY: the caller passes a value of that length.
            let timeout: u8 = unsafe { read(value, length)? };
            state.options.ack_timeout = Some(timeout.min(LONGEST_TIMEOUT));
        }
        // Path records are InfiniBand's; here the system's routes are the paths.
        (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => return Err(Errno::UNSUPPORTED),
        _ => return Err(Errno(libc::ENOSYS)),
    }
    Ok(())
}

/// # Safety
///
/// `value` has `length` bytes, of which any are a valid `T` if it is as long.
unsafe fn read<T>(value: *const c_void, length: usize) -> Result<T, Errno> {
    if value.is_null() || length != size_of::<T>() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller passes that many bytes.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// `rdma_set_local_ece(3)`: for who makes its queue pair itself.
///
/// # Safety
///
/// `id` is an id or null, and `ece` valid or null.
pub(super) unsafe extern "C" fn set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the caller passes an id and options, or null.
    let (id, ece) = unsafe { (id.as_mut().map(|id| Id::of(id)), ece.as_ref()) };
    let set = || {
        let (Some(id), Some(ece)) = (id, ece) else { return Err(Errno::INVALID) };
        if !id.seen(|c| c.qp.is_null()) || ece.vendor_id == 0 || ece.comp_mask != 0 {
            return Err(Errno::INVALID);
        }
        id.state().local_ece = Ece { vendor_id: ece.vendor_id, options: ece.options };
        Ok(())
    };
    zero_or_minus_one(set())
}

/// `rdma_get_remote_ece(3)`: what the peer's queue pair asks for or agrees to.
///
/// # Safety
///
/// `id` is an id, and `ece` valid or null.
pub(super) unsafe extern "C" fn remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the caller passes an id, and a valid place or null.
    let (id, ece) = unsafe { (Id::of(id), ece.as_mut()) };
    let tell = |ece: Option<&mut ibv_ece>| {
        let ece = ece.filter(|_| id.seen(|c| c.qp.is_null())).ok_or(Errno::INVALID)?;
        let Ece { vendor_id, options } = id.state().remote_ece;
        *ece = ibv_ece { vendor_id, options, comp_mask: 0 };
        Ok(())
    };
    zero_or_minus_one(tell(ece))
}
