//! Multicast groups. On RoCE a group is an IP address: nobody has to be asked for it.

use std::{
    ffi::{c_int, c_void},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use libc::sockaddr;
use nic::cm::Path;
use parking_lot::Mutex;
use wire::Gid;

use super::{
    address,
    id::{Id, Stage, State},
    news::{ROUTER, What},
    resolve::gid_index,
};
use crate::abi::{
    convert::{Flags, to_gid},
    errno::{Errno, zero_or_minus_one},
    object::{Acknowledgements, Object},
    types::{
        cm::{rdma_cm_id, *},
        queue_pair::ibv_qp,
    },
    verbs,
};

/// An id's membership in a group.
#[derive(Debug)]
pub(super) struct Membership {
    group: SocketAddr,
    /// The way to the group.
    pub path: Path,
    /// The program's word for it.
    pub context: ContextWord,
    /// The id only sends to the group.
    sends_only: bool,
    life: Mutex<Life>,
    /// Events that the program has taken and not acknowledged.
    pub told: Acknowledgements,
}

/// A word of the program's, which we only hand back.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextWord(pub *mut c_void);

// SAFETY: we do not look at what it points to.
unsafe impl Send for ContextWord {}
// SAFETY: as above.
unsafe impl Sync for ContextWord {}

/// What becomes of a membership.
#[derive(Debug, Default)]
struct Life {
    /// The queue pair that receives, which has to be alive until it leaves the group.
    receiver: Option<Receiver>,
    is_over: bool,
}

/// A queue pair that receives what is sent to a group.
#[derive(Debug)]
struct Receiver(*mut ibv_qp);

// SAFETY: queue pairs may be used by any thread.
unsafe impl Send for Receiver {}

impl Membership {
    /// The program is about to be told of it; false if it is over, and nobody wants to hear.
    pub fn begin_telling(&self) -> bool {
        let life = self.life.lock();
        if !life.is_over {
            self.told.expect_one();
        }
        !life.is_over
    }

    /// Has a queue pair receive what is sent to the group, if there is one and it shall.
    pub fn attach(&self, qp: *mut ibv_qp) -> Result<(), Errno> {
        let mut life = self.life.lock();
        if qp.is_null() || self.sends_only || life.is_over {
            return Ok(());
        }
        let group = to_gid(self.path.destination);
        // SAFETY: the id's queue pair is alive until the program destroys it.
        match unsafe { verbs::attach_mcast(qp, &group, 0) } {
            0 => {
                life.receiver = Some(Receiver(qp));
                Ok(())
            }
            error => Err(Errno(error)),
        }
    }

    /// Leaves the group; `qp` is the id's queue pair, if it still has one.
    pub fn leave(&self, qp: *mut ibv_qp) {
        let mut life = self.life.lock();
        life.is_over = true;
        // A queue pair that was destroyed has left all its groups.
        if let Some(Receiver(receiver)) = life.receiver.take()
            && receiver == qp
        {
            let group = to_gid(self.path.destination);
            // SAFETY: it is the id's queue pair, which is alive until the program destroys it.
            unsafe { verbs::detach_mcast(qp, &group, 0) };
        }
    }
}

/// `rdma_join_multicast(3)`.
///
/// # Safety
///
/// `id` is an id and `address` is valid.
pub(super) unsafe extern "C" fn join_multicast(
    id: *mut rdma_cm_id,
    address: *mut sockaddr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes an id and an address.
    let (id, address) = unsafe { (Id::of(id), address::read(address)) };
    zero_or_minus_one(address.and_then(|group| join(id, group, false, context)))
}

/// `rdma_join_multicast_ex(3)`.
///
/// # Safety
///
/// `id` is an id; `attr` and the address it names are valid.
pub(super) unsafe extern "C" fn join_multicast_ex(
    id: *mut rdma_cm_id,
    attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
) -> c_int {
    /// Both have to be set.
    const FIELDS: u32 = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    // SAFETY: the caller passes an id and attributes.
    let (id, attr) = unsafe { (Id::of(id), &*attr) };
    let join = || -> Result<(), Errno> {
        attr.comp_mask.only(FIELDS, Errno(libc::ENOSYS))?;
        if attr.comp_mask != FIELDS {
            return Err(Errno::INVALID);
        }
        let sends_only = match attr.join_flags {
            RDMA_MC_JOIN_FLAG_FULLMEMBER => false,
            RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER => true,
            _ => return Err(Errno::INVALID),
        };
        // SAFETY: the caller passes a valid address.
        join(id, unsafe { address::read(attr.addr)? }, sends_only, context)
    };
    zero_or_minus_one(join())
}

fn join(id: &Id, group: SocketAddr, sends_only: bool, context: *mut c_void) -> Result<(), Errno> {
    let mut state = id.state();
    let path = group_path(id, &state, group.ip())?;
    let membership = Arc::new(Membership {
        group,
        path,
        context: ContextWord(context),
        sends_only,
        life: Mutex::default(),
        told: Acknowledgements::default(),
    });
    state.memberships.push(membership.clone());
    drop(state);
    id.tell(What::Joined(membership));
    id.complete()
}

/// The way to a group, from the address that the id is bound to.
fn group_path(id: &Id, state: &State, group: IpAddr) -> Result<Path, Errno> {
    let (Some(device), Some(local)) = (state.device, state.local) else { return Err(Errno::INVALID) };
    let is_placed = matches!(state.stage, Stage::Bound | Stage::Resolved(_) | Stage::Routed(_));
    if !is_placed || !id.is_datagram() || !group.is_multicast() {
        return Err(Errno::INVALID);
    }
    let index = gid_index(device, local.ip(), 0).ok_or(Errno(libc::ENODEV))?;
    let path = Path {
        source: Gid::from(local.ip()),
        destination: Gid::from(group),
        source_gid_index: index,
        ..Path::default()
    };
    Ok(state.options.route(path))
}

/// `rdma_leave_multicast(3)`: waits until the events about the membership were acknowledged.
///
/// # Safety
///
/// `id` is an id and `address` is valid.
pub(super) unsafe extern "C" fn leave_multicast(id: *mut rdma_cm_id, address: *mut sockaddr) -> c_int {
    // SAFETY: the caller passes an id and an address.
    let (id, address) = unsafe { (Id::of(id), address::read(address)) };
    zero_or_minus_one(address.and_then(|group| leave(id, group)))
}

fn leave(id: &Id, group: SocketAddr) -> Result<(), Errno> {
    let mut state = id.state();
    let joined = state.memberships.iter().position(|membership| membership.group.ip() == group.ip());
    let membership = state.memberships.swap_remove(joined.ok_or(Errno(libc::EADDRNOTAVAIL))?);
    drop(state);
    membership.leave(id.seen(|c| c.qp));
    ROUTER.withdraw(id.token, |what| matches!(what, What::Joined(other) if Arc::ptr_eq(other, &membership)));
    membership.told.wait();
    Ok(())
}
