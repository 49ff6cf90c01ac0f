//! Events: news as the program gets it, and what the id does about it before.
//!
//! Queue pairs are changed here, in the thread that takes the event: so the program sees them change in step with the
//! events.

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr::null_mut,
    sync::Arc,
};

use nic::cm::{CmEvent, ConnectReply, ConnectRequest, Endpoint, Path, SidrReply, SidrRequest};
use wire::{
    Qpn,
    cm::{RejReason, SidrStatus},
};

use super::{
    channel::EventChannel,
    connect::adopt_request,
    id::{Depths, Id, IdRef, Stage},
    multicast::Membership,
    news::{News, What},
    queue_pair,
};
use crate::abi::{
    convert::ah_attr,
    errno::{Errno, zero_or_minus_one},
    layout::Zeroed,
    object::{Object, Visible},
    types::{
        address::ibv_ah_attr,
        cm::{rdma_cm_event, rdma_event_channel, *},
    },
};

/// An event that the program has taken.
#[repr(C)]
pub(super) struct Event {
    c: Visible<rdma_cm_event>,
    owner: IdRef,
    membership: Option<Arc<Membership>>,
    /// What the program's part points to.
    _private_data: Vec<u8>,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Event {
    type C = rdma_cm_event;
}

/// `rdma_get_cm_event(3)`: waits for an event, unless the channel's descriptor was made non-blocking.
///
/// # Safety
///
/// `channel` is a channel and `event` is valid.
pub(super) unsafe extern "C" fn get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    if channel.is_null() || event.is_null() {
        return zero_or_minus_one(Err(Errno::INVALID));
    }
    // SAFETY: the caller passes a channel and a valid place.
    zero_or_minus_one(unsafe { next(channel).map(|next| *event = next) })
}

/// `rdma_ack_cm_event(3)`.
///
/// # Safety
///
/// `event` came from [`get_cm_event`] and was not acknowledged.
pub(super) unsafe extern "C" fn ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    if event.is_null() {
        return zero_or_minus_one(Err(Errno::INVALID));
    }
    // SAFETY: the caller passes an event that it is done with.
    unsafe { acknowledge(event) };
    0
}

/// Waits for the next event of a channel.
///
/// # Safety
///
/// `channel` is a channel.
pub(super) unsafe fn next(channel: *mut rdma_event_channel) -> Result<*mut rdma_cm_event, Errno> {
    // SAFETY: the caller passes a channel.
    let queue = unsafe { EventChannel::of(channel) }.queue.clone();
    loop {
        let News { owner, what } = queue.take()?;
        // SAFETY: it has an event that was not acknowledged.
        let id = unsafe { owner.get() };
        let membership = if let What::Joined(membership) = &what { Some(membership.clone()) } else { None };
        if let Some(told) = told(id, what) {
            return Ok(told.hand_out(owner, membership));
        }
        id.told.acknowledge(1);
    }
}

/// Acknowledges an event, which is gone then.
///
/// # Safety
///
/// `event` came from [`next`], and is not used any more.
pub(super) unsafe fn acknowledge(event: *mut rdma_cm_event) {
    // SAFETY: the caller passes an event; its id waits for this.
    let (id, membership) = unsafe {
        let event = Event::of(event);
        (event.owner.get(), event.membership.clone())
    };
    // SAFETY: the caller is done with it.
    unsafe { Event::take_back(event) };
    if let Some(membership) = membership {
        membership.told.acknowledge(1);
    }
    id.told.acknowledge(1);
}

/// What the program is told.
struct Told {
    id: *mut rdma_cm_id,
    listen_id: *mut rdma_cm_id,
    event: c_uint,
    status: c_int,
    param: Param,
    private_data: Vec<u8>,
}

/// What comes with it.
enum Param {
    Nothing,
    Connection(rdma_conn_param),
    Datagram(rdma_ud_param),
}

impl Told {
    fn new(id: &Id, event: c_uint, status: c_int) -> Self {
        let listen_id = null_mut();
        Self { id: id.c(), listen_id, event, status, param: Param::Nothing, private_data: Vec::new() }
    }

    fn hand_out(self, owner: IdRef, membership: Option<Arc<Membership>>) -> *mut rdma_cm_event {
        let (data, length) = match self.private_data.len() {
            0 => (null_mut(), 0),
            length => {
                (self.private_data.as_ptr().cast::<c_void>().cast_mut(), length.min(u8::MAX.into()) as u8)
            }
        };
        let param = match self.param {
            Param::Nothing => {
                let conn =
                    rdma_conn_param { private_data: data, private_data_len: length, ..Zeroed::zeroed() };
                rdma_cm_event_param { conn }
            }
            Param::Connection(conn) => rdma_cm_event_param {
                conn: rdma_conn_param { private_data: data, private_data_len: length, ..conn },
            },
            Param::Datagram(ud) => {
                let private_data = membership.as_ref().map_or(data, |membership| membership.context.0);
                rdma_cm_event_param { ud: rdma_ud_param { private_data, private_data_len: length, ..ud } }
            }
        };
        let (id, listen_id, event, status) = (self.id, self.listen_id, self.event, self.status);
        let c = Visible::new(rdma_cm_event { id, listen_id, event, status, param });
        Event { c, owner, membership, _private_data: self.private_data }.hand_out()
    }
}

/// Does what news of an id asks for, and says what to tell the program, if anything.
fn told(id: &Id, what: What) -> Option<Told> {
    match what {
        What::Plain { event, status } => Some(Told::new(id, event, status)),
        What::Joined(membership) => joined(id, &membership),
        What::Cm(event) => match *event {
            CmEvent::Request(request) => requested(id, *request),
            CmEvent::SidrRequest(request) => datagrams_requested(id, *request),
            CmEvent::Reply(reply) => replied(id, *reply),
            CmEvent::SidrReply(reply) => Some(datagrams_replied(id, *reply)),
            CmEvent::Established { .. } => Some(Told::new(id, RDMA_CM_EVENT_ESTABLISHED, 0)),
            CmEvent::Rejected { reason, private_data, .. } => rejected(id, reason, private_data),
            CmEvent::Unreachable { .. } => Some(Told::new(id, RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT)),
            CmEvent::Disconnected { .. } => {
                (!id.state().has_failed).then(|| Told::new(id, RDMA_CM_EVENT_DISCONNECTED, 0))
            }
            CmEvent::TimewaitExit { .. } => Some(Told::new(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0)),
        },
    }
}

fn requested(listener: &Id, request: ConnectRequest) -> Option<Told> {
    let remote = request.remote;
    let depths = depths(&remote);
    let child = adopt_request(listener, request.id, request.path, request.addresses, request.service)?;
    // SAFETY: it was just made.
    let id = unsafe { Id::of(child) };
    let mut state = id.state();
    (state.depths, state.remote_ece) = (depths, remote.ece);
    let conn = rdma_conn_param { retry_count: request.retry_count, ..conn_param(&remote) };
    Some(Told {
        listen_id: listener.c(),
        param: Param::Connection(conn),
        private_data: request.private_data,
        ..Told::new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0)
    })
}

fn datagrams_requested(listener: &Id, request: SidrRequest) -> Option<Told> {
    let child = adopt_request(listener, request.id, request.path, request.addresses, request.service)?;
    // SAFETY: it was just made.
    let id = unsafe { Id::of(child) };
    Some(Told {
        listen_id: listener.c(),
        param: Param::Datagram(rdma_ud_param::zeroed()),
        private_data: request.private_data,
        ..Told::new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0)
    })
}

/// The peer accepted: an id with a queue pair concludes by itself.
fn replied(id: &Id, reply: ConnectReply) -> Option<Told> {
    let mut state = id.state();
    state.remote_ece = reply.remote.ece;
    let told = Told {
        param: Param::Connection(conn_param(&reply.remote)),
        private_data: reply.private_data,
        ..Told::new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0)
    };
    let qp = id.seen(|c| c.qp);
    if qp.is_null() {
        return Some(told);
    }
    let (Some(device), Stage::Connection(connection, _)) = (state.device, state.stage) else { return None };
    // SAFETY: the id's queue pair is alive until the program destroys it.
    let ready = unsafe { queue_pair::make_ready(id, &state, qp, None) };
    let concluded = ready.and_then(|()| Ok(device.manager.establish(connection, &[])?));
    let Err(error) = concluded else {
        return Some(Told { event: RDMA_CM_EVENT_ESTABLISHED, ..told });
    };
    state.has_failed = true;
    drop(state);
    // What cannot be told the peer now, it finds out itself.
    let _ = queue_pair::fail(id);
    let _ = device.manager.reject(connection, RejReason::CONSUMER, &[], &[]);
    Some(Told { event: RDMA_CM_EVENT_CONNECT_ERROR, status: -error.0, ..told })
}

fn datagrams_replied(id: &Id, reply: SidrReply) -> Told {
    let path = match id.state().stage {
        Stage::Connection(_, path) => path,
        _ => Path::default(),
    };
    if reply.status != SidrStatus::VALID {
        let status = i32::from(reply.status.0);
        return Told { private_data: reply.private_data, ..Told::new(id, RDMA_CM_EVENT_UNREACHABLE, status) };
    }
    Told {
        param: Param::Datagram(ud_param(&path, reply.qpn, reply.qkey)),
        private_data: reply.private_data,
        ..Told::new(id, RDMA_CM_EVENT_ESTABLISHED, 0)
    }
}

fn rejected(id: &Id, reason: RejReason, private_data: Vec<u8>) -> Option<Told> {
    if id.state().has_failed {
        return None;
    }
    // It has none, or has seen the error itself.
    let _ = queue_pair::fail(id);
    Some(Told { private_data, ..Told::new(id, RDMA_CM_EVENT_REJECTED, reason.0.into()) })
}

fn joined(id: &Id, membership: &Membership) -> Option<Told> {
    if !membership.begin_telling() {
        return None;
    }
    if let Err(error) = membership.attach(id.seen(|c| c.qp)) {
        return Some(Told::new(id, RDMA_CM_EVENT_MULTICAST_ERROR, -error.0));
    }
    let ud = ud_param(&membership.path, Qpn::MULTICAST, RDMA_UDP_QKEY);
    Some(Told { param: Param::Datagram(ud), ..Told::new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0) })
}

/// READs and atomics that suit a peer: it takes what we have outstanding, and has outstanding what we take.
fn depths(remote: &Endpoint) -> Depths {
    Depths { responder_resources: remote.initiator_depth, initiator_depth: remote.responder_resources }
}

fn conn_param(remote: &Endpoint) -> rdma_conn_param {
    let Depths { responder_resources, initiator_depth } = depths(remote);
    rdma_conn_param {
        responder_resources,
        initiator_depth,
        flow_control: remote.flow_control.into(),
        rnr_retry_count: remote.rnr_retry_count,
        srq: remote.srq.into(),
        qp_num: remote.qpn.value(),
        ..rdma_conn_param::zeroed()
    }
}

fn ud_param(path: &Path, qpn: Qpn, qkey: u32) -> rdma_ud_param {
    let ah_attr: ibv_ah_attr = ah_attr(&path.address_vector());
    rdma_ud_param { ah_attr, qp_num: qpn.value(), qkey, ..rdma_ud_param::zeroed() }
}
