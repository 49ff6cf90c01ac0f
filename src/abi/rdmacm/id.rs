//! The id: what a socket is to TCP.

use std::{
    ffi::{c_int, c_uint, c_void},
    net::SocketAddr,
    ptr::{NonNull, null_mut},
    sync::Arc,
};

use host::cm::Port;
use nic::cm::{CmId, Ece, ListenerId, Path};
use parking_lot::{Mutex, MutexGuard};
use wire::cm::PortSpace;

use super::{
    address,
    channel::EventChannel,
    device::CmDevice,
    endpoint::Passive,
    event,
    multicast::Membership,
    news::{ROUTER, Target, Token, What, connection_requested},
    options::Options,
};
use crate::abi::{
    convert::to_gid,
    errno::{Errno, zero_or_minus_one},
    layout::Zeroed,
    object::{Acknowledgements, Object, Visible},
    types::{
        cm::{rdma_cm_id, rdma_event_channel, *},
        constants::{IBV_QPT_RC, IBV_QPT_UD},
        kernel::ibv_sa_path_rec,
    },
};

/// The only port of a device.
const PORT: u8 = 1;

/// An id.
#[repr(C)]
pub(crate) struct Id {
    pub(super) c: Visible<rdma_cm_id>,
    pub(super) path_record: Visible<ibv_sa_path_rec>,
    pub(super) token: Token,
    /// Events that the program has taken and not acknowledged.
    pub(super) told: Acknowledgements,
    state: Mutex<State>,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Id {
    type C = rdma_cm_id;
}

/// An id that is not freed before its news is withdrawn or acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdRef(NonNull<Id>);

// SAFETY: it refers to what threads may share.
unsafe impl Send for IdRef {}
// SAFETY: as above.
unsafe impl Sync for IdRef {}

impl IdRef {
    /// The id.
    ///
    /// # Safety
    ///
    /// It was not freed, nor is it while the reference lives.
    pub unsafe fn get<'a>(self) -> &'a Id {
        // SAFETY: the caller promises that it is alive.
        unsafe { self.0.as_ref() }
    }
}

/// What an id has come to.
#[derive(Debug, Default)]
pub(super) struct State {
    pub stage: Stage,
    /// Where its port and its connections are.
    pub device: Option<&'static CmDevice>,
    /// Whether the channel is the id's own, on which its calls wait.
    pub is_synchronous: bool,
    pub port: Option<Port>,
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    pub options: Options,
    pub depths: Depths,
    pub local_ece: Ece,
    pub remote_ece: Ece,
    /// The program was told that the connection failed; it does not want to hear of that again.
    pub has_failed: bool,
    pub memberships: Vec<Arc<Membership>>,
    /// What the queue pairs of a listener's connections are made of.
    pub passive: Option<Passive>,
}

/// How far an id has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Stage {
    /// Nothing was done with it.
    #[default]
    Idle,
    /// It has an address or a port of ours.
    Bound,
    /// It knows the peer's address.
    Resolved(Path),
    /// It may connect.
    Routed(Path),
    /// It takes requests.
    Listening(ListenerId),
    /// It is one end of a connection, of one that comes about, or of one that is over.
    Connection(CmId, Path),
}

/// READs and atomics at once: those that we take, and those that we have outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Depths {
    pub responder_resources: u8,
    pub initiator_depth: u8,
}

impl Id {
    /// Makes an id, whose news goes to `channel`, or to a channel of its own.
    ///
    /// # Safety
    ///
    /// `channel` is a channel, or null.
    pub unsafe fn create(
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        ps: c_uint,
        qp_type: c_uint,
    ) -> Result<*mut rdma_cm_id, Errno> {
        let is_synchronous = channel.is_null();
        let channel = if is_synchronous { EventChannel::create()? } else { channel };
        let token = Token::fresh();
        let c = rdma_cm_id { channel, context, ps, qp_type, ..rdma_cm_id::zeroed() };
        let id = Self {
            c: Visible::new(c),
            path_record: Visible::new(ibv_sa_path_rec::zeroed()),
            token,
            told: Acknowledgements::default(),
            state: Mutex::new(State { is_synchronous, ..State::default() }),
        }
        .hand_out();
        // SAFETY: the id was just made, and the channel is alive.
        let (id_ref, queue) = unsafe { (Self::of(id).reference(), EventChannel::of(channel).queue.clone()) };
        ROUTER.set(token, Target { id: id_ref, queue });
        Ok(id)
    }

    /// For who may still know it when it is about to go.
    pub fn reference(&self) -> IdRef {
        IdRef(self.into())
    }

    /// What it has come to.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Tells the program something.
    pub fn tell(&self, what: What) {
        ROUTER.tell(self.token, what);
    }

    /// Tells the program that something went well.
    pub fn tell_plainly(&self, event: c_uint) {
        self.tell(What::Plain { event, status: 0 });
    }

    /// A field that the program may have changed.
    pub fn seen<R>(&self, field: impl FnOnce(&rdma_cm_id) -> R) -> R {
        // SAFETY: the program may change its part before and after a call about the id, but not during one.
        field(unsafe { &*self.c.get() })
    }

    /// Changes the program's part.
    pub fn show(&self, change: impl FnOnce(&mut rdma_cm_id)) {
        // SAFETY: as for `seen`; the fields are ours to write during a call about the id.
        change(unsafe { &mut *self.c.get() });
    }

    /// The space that its port is a number of.
    pub fn port_space(&self) -> PortSpace {
        PortSpace(self.seen(|c| c.ps) as u16)
    }

    /// Whether it is for datagrams.
    pub fn is_datagram(&self) -> bool {
        self.seen(|c| c.qp_type) == IBV_QPT_UD
    }

    /// Shows the device it is bound to.
    pub fn show_device(&self, device: &CmDevice) {
        self.show(|c| {
            c.verbs = device.context;
            c.port_num = PORT;
            if c.pd.is_null() {
                c.pd = device.pd;
            }
        });
    }

    /// Shows both addresses, as far as they are known.
    pub fn show_addresses(&self, state: &State) {
        self.show(|c| {
            if let Some(local) = state.local {
                c.route.addr.src_storage = address::storage(local);
            }
            if let Some(peer) = state.peer {
                c.route.addr.dst_storage = address::storage(peer);
            }
        });
    }

    /// Shows both ends as GIDs.
    pub fn show_gids(&self, path: &Path) {
        let ibaddr = rdma_ib_addr {
            sgid: to_gid(path.source),
            dgid: to_gid(path.destination),
            pkey: path.pkey.to_be(),
        };
        self.show(|c| c.route.addr.addr = rdma_addr_addr { ibaddr });
    }

    /// Sends its news elsewhere.
    ///
    /// # Safety
    ///
    /// `channel` is a channel, or null.
    pub unsafe fn migrate(&self, channel: *mut rdma_event_channel) -> Result<(), Errno> {
        let is_synchronous = channel.is_null();
        let channel = if is_synchronous { EventChannel::create()? } else { channel };
        // SAFETY: the caller passes a channel, or it was just made.
        let queue = unsafe { EventChannel::of(channel) }.queue.clone();
        ROUTER.set(self.token, Target { id: self.reference(), queue });
        let mut state = self.state();
        let was_synchronous = std::mem::replace(&mut state.is_synchronous, is_synchronous);
        drop(state);
        let (old, event) = self.seen(|c| (c.channel, c.event));
        if was_synchronous {
            if !event.is_null() {
                // SAFETY: the id holds an event that nobody else acknowledges.
                unsafe { event::acknowledge(event) };
                self.show(|c| c.event = null_mut());
            }
            // SAFETY: the channel was this id's alone.
            unsafe { EventChannel::take_back(old) };
        }
        self.show(|c| c.channel = channel);
        Ok(())
    }

    /// Waits for the next event, if the id is synchronous. It stays with the id until the next call that waits.
    pub fn complete(&self) -> Result<(), Errno> {
        if !self.state().is_synchronous {
            return Ok(());
        }
        self.forget_event();
        let channel = self.seen(|c| c.channel);
        // SAFETY: the channel is the id's own.
        let event = unsafe { event::next(channel) }?;
        self.show(|c| c.event = event);
        // SAFETY: the event was just made.
        let (kind, status) = unsafe { ((*event).event, (*event).status) };
        match status {
            0 => Ok(()),
            _ if kind == RDMA_CM_EVENT_REJECTED => Err(Errno(libc::ECONNREFUSED)),
            status => Err(Errno(status.saturating_abs())),
        }
    }

    /// Acknowledges the event that a synchronous call left.
    pub fn forget_event(&self) {
        let event = self.seen(|c| c.event);
        if !event.is_null() {
            // SAFETY: the id holds an event that nobody else acknowledges.
            unsafe { event::acknowledge(event) };
            self.show(|c| c.event = null_mut());
        }
    }

    /// Ends what goes on with it, and waits until the program knows nothing of it any more.
    fn retire(&self) {
        let withdrawn = ROUTER.remove(self.token);
        let mut state = self.state();
        if let Some(device) = state.device {
            match state.stage {
                Stage::Listening(listener) => {
                    // The service may be gone, and with it whoever could ask.
                    let _ = device.manager.unlisten(listener);
                }
                Stage::Connection(connection, _) => end(device, connection),
                _ => {}
            }
            for news in withdrawn {
                if let What::Cm(event) = &news.what
                    && let Some(connection) = connection_requested(event)
                {
                    end(device, connection);
                }
            }
        }
        let memberships = std::mem::take(&mut state.memberships);
        let qp = self.seen(|c| c.qp);
        memberships.iter().for_each(|membership| membership.leave(qp));
        state.port = None;
        drop(state);
        self.forget_event();
        self.told.wait();
    }
}

/// Gives a connection back.
fn end(device: &CmDevice, connection: CmId) {
    // It is unknown if a fork took the adapter away; then there is nothing to end.
    let _ = device.manager.destroy(connection);
    ROUTER.forget(device.key(connection));
}

/// `rdma_create_id(3)`.
///
/// # Safety
///
/// `channel` is a channel or null, and `id` is valid.
pub(super) unsafe extern "C" fn create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: c_uint,
) -> c_int {
    let qp_type = match ps {
        RDMA_PS_IPOIB | RDMA_PS_UDP => IBV_QPT_UD,
        RDMA_PS_TCP | RDMA_PS_IB => IBV_QPT_RC,
        _ => return zero_or_minus_one(Err(Errno::INVALID)),
    };
    // SAFETY: the caller passes a channel or null, and a valid place.
    zero_or_minus_one(unsafe { Id::create(channel, context, ps, qp_type).map(|made| *id = made) })
}

/// `rdma_destroy_id(3)`: waits until every event about the id was acknowledged.
///
/// # Safety
///
/// `id` is an id, whose queue pair is destroyed.
pub(super) unsafe extern "C" fn destroy_id(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the caller passes an id.
    let object = unsafe { Id::of(id) };
    object.retire();
    let (is_synchronous, channel) = (object.state().is_synchronous, object.seen(|c| c.channel));
    // SAFETY: no news or event refers to it any more, and the program destroys it.
    unsafe { Id::take_back(id) };
    if is_synchronous {
        // SAFETY: the channel was this id's alone.
        unsafe { EventChannel::take_back(channel) };
    }
    0
}
