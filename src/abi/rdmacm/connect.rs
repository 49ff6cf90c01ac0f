//! Connections: asking, accepting, refusing, ending.

use std::{
    ffi::{c_int, c_uint, c_void},
    net::SocketAddr,
};

use host::cm::ManagerError;
use nic::cm::{CmId, Endpoint, Path, Patience, RepParams, ReqParams, SidrParams};
use wire::{
    Qpn,
    cm::{IpCmHeader, RejReason, ServiceId, SidrStatus, TransportService},
};

use super::{
    device::CmDevice,
    id::{Depths, Id, Stage, State},
    news::ROUTER,
    queue_pair, resolve,
};
use crate::abi::{
    convert::bytes,
    errno::{Errno, zero_or_minus_one},
    object::Object,
    types::{
        cm::{rdma_cm_id, *},
        constants::{IBV_EVENT_COMM_EST, IBV_QPT_UC, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND},
    },
};

/// Retries of who does not say how many.
const RETRIES: u8 = 7;

/// `rdma_connect(3)`.
///
/// # Safety
///
/// `id` is an id, and `param` valid or null.
pub(super) unsafe extern "C" fn connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    // SAFETY: the caller passes an id, and parameters or null.
    let (id, param) = unsafe { (Id::of(id), param.as_ref()) };
    // SAFETY: private data is as long as the parameters say.
    zero_or_minus_one(unsafe { ask(id, param) }.and_then(|()| id.complete()))
}

/// # Safety
///
/// Private data is as long as `param` says.
unsafe fn ask(id: &Id, param: Option<&rdma_conn_param>) -> Result<(), Errno> {
    let mut state = id.state();
    let (Stage::Routed(path), Some(device), Some(local), Some(peer)) =
        (state.stage, state.device, state.local, state.peer)
    else {
        return Err(Errno::INVALID);
    };
    let service = ServiceId::of_port(id.port_space(), peer.port());
    let addresses =
        Some(IpCmHeader { source: local.ip(), source_port: local.port(), destination: peer.ip() });
    // SAFETY: the caller's promise is passed on.
    let private_data = unsafe { private_data(param) };
    let reporter = device.reporter(id.token);
    let connection = if id.is_datagram() {
        let patience = Patience::default();
        device.manager.resolve(&SidrParams { path, service, addresses, patience, private_data }, reporter)?
    } else {
        let (most_taken, most_asked) = device.read_limits();
        let depths = Depths {
            responder_resources: depth(param.map(|param| param.responder_resources), most_taken)?,
            initiator_depth: depth(param.map(|param| param.initiator_depth), most_asked)?,
        };
        let local = endpoint(id, &state, param, depths)?;
        let retry_count = param.map_or(RETRIES, |param| param.retry_count.min(RETRIES));
        let (transport, patience) = (transport(id), Patience::default());
        let params =
            ReqParams { path, service, addresses, transport, local, retry_count, patience, private_data };
        state.depths = depths;
        device.manager.connect(&params, reporter)?
    };
    state.stage = Stage::Connection(connection, path);
    Ok(())
}

/// So many READs and atomics as the program wants, or as there may be.
fn depth(wanted: Option<u8>, most: u8) -> Result<u8, Errno> {
    match wanted {
        None | Some(RDMA_MAX_RESP_RES) => Ok(most),
        Some(wanted) if wanted <= most => Ok(wanted),
        Some(_) => Err(Errno::INVALID),
    }
}

/// What we bring: the id's queue pair, or one that only the program knows.
fn endpoint(
    id: &Id,
    state: &State,
    param: Option<&rdma_conn_param>,
    depths: Depths,
) -> Result<Endpoint, Errno> {
    let qp = id.seen(|c| c.qp);
    // SAFETY: the id's queue pair is alive until the program destroys it.
    let (qpn, srq) = match (unsafe { qp.as_ref() }, param) {
        (Some(qp), _) => (qp.qp_num, !qp.srq.is_null()),
        (None, Some(param)) => (param.qp_num, param.srq != 0),
        (None, None) => return Err(Errno::INVALID),
    };
    Ok(Endpoint {
        qpn: Qpn::new(qpn),
        responder_resources: depths.responder_resources,
        initiator_depth: depths.initiator_depth,
        flow_control: param.is_some_and(|param| param.flow_control != 0),
        rnr_retry_count: param.map_or(RETRIES, |param| param.rnr_retry_count.min(RETRIES)),
        srq,
        qkey: 0,
        ece: state.local_ece,
    })
}

fn transport(id: &Id) -> TransportService {
    match id.seen(|c| c.qp_type) {
        IBV_QPT_UC => TransportService::Uc,
        IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV => TransportService::Xrc,
        _ => TransportService::Rc,
    }
}

/// # Safety
///
/// Private data is as long as `param` says.
unsafe fn private_data<'a>(param: Option<&rdma_conn_param>) -> &'a [u8] {
    // SAFETY: the caller's promise is passed on.
    param
        .map_or(&[], |param| unsafe { bytes(param.private_data.cast::<u8>(), param.private_data_len.into()) })
}

/// Makes the id of a connection that a peer asks for. If there is no memory or descriptor for it, the peer is refused.
pub(super) fn adopt_request(
    listener: &Id,
    connection: CmId,
    path: Path,
    addresses: Option<IpCmHeader>,
    service: ServiceId,
) -> Option<*mut rdma_cm_id> {
    let state = listener.state();
    let (device, options, is_synchronous) = (state.device?, state.options, state.is_synchronous);
    drop(state);
    let (channel, context, ps, qp_type) = listener.seen(|c| (c.channel, c.context, c.ps, c.qp_type));
    let channel = if is_synchronous { std::ptr::null_mut() } else { channel };
    // SAFETY: the listener's channel is alive, since this news came on it.
    let Ok(child) = (unsafe { Id::create(channel, context, ps, qp_type) }) else {
        let _ = device.manager.destroy(connection);
        ROUTER.forget(device.key(connection));
        return None;
    };
    // SAFETY: it was just made.
    let id = unsafe { Id::of(child) };
    let mut state = id.state();
    state.device = Some(device);
    state.options = options;
    state.stage = Stage::Connection(connection, path);
    let port = service.port().map_or(0, |(_, port)| port);
    state.local = addresses.map(|addresses| SocketAddr::new(addresses.destination, port));
    state.peer = addresses.map(|addresses| SocketAddr::new(addresses.source, addresses.source_port));
    id.show_device(device);
    id.show_addresses(&state);
    id.show_gids(&path);
    resolve::show_path(id, &path);
    drop(state);
    ROUTER.adopt(device.key(connection), id.token);
    Some(child)
}

/// `rdma_accept(3)`.
///
/// # Safety
///
/// `id` is an id, and `param` valid or null.
pub(super) unsafe extern "C" fn accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    // SAFETY: the caller passes an id, and parameters or null.
    let (id, param) = unsafe { (Id::of(id), param.as_ref()) };
    let accept = || -> Result<(), Errno> {
        let mut state = id.state();
        let (device, connection) = connection(&state)?;
        // SAFETY: private data is as long as the parameters say.
        let data = unsafe { private_data(param) };
        if id.is_datagram() {
            let qpn = endpoint(id, &state, param, Depths::default())?.qpn;
            return Ok(device.manager.answer(connection, Ok((qpn, RDMA_UDP_QKEY)), data)?);
        }
        let depths = accepted_depths(&state, device, param)?;
        state.depths = depths;
        let local = endpoint(id, &state, param, depths)?;
        let qp = id.seen(|c| c.qp);
        if !qp.is_null() {
            // SAFETY: the id's queue pair is alive until the program destroys it.
            unsafe { queue_pair::make_ready(id, &state, qp, Some(depths))? };
        }
        device.manager.accept(connection, &RepParams { local, private_data: data })?;
        drop(state);
        id.complete()
    };
    zero_or_minus_one(accept())
}

/// What the program accepts with: what it says, or else what the peer asks for.
fn accepted_depths(
    state: &State,
    device: &CmDevice,
    param: Option<&rdma_conn_param>,
) -> Result<Depths, Errno> {
    let (most_taken, most_asked) = device.read_limits();
    let asked = state.depths;
    let wanted = |said: Option<u8>, asked: u8, most: u8| match said {
        Some(said) if said != RDMA_MAX_RESP_RES => depth(Some(said), most),
        _ => Ok(asked.min(most)),
    };
    Ok(Depths {
        responder_resources: wanted(
            param.map(|param| param.responder_resources),
            asked.responder_resources,
            most_taken,
        )?,
        initiator_depth: wanted(param.map(|param| param.initiator_depth), asked.initiator_depth, most_asked)?,
    })
}

/// `rdma_reject(3)`.
///
/// # Safety
///
/// `id` is an id and `data` has `length` bytes.
pub(super) unsafe extern "C" fn reject(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int {
    // SAFETY: the caller's promises are passed on.
    unsafe { refuse(id, RejReason::CONSUMER, data, length) }
}

/// `rdma_reject_ece(3)`: for the peer's options of enhanced connection establishment.
///
/// # Safety
///
/// As for [`reject`].
pub(super) unsafe extern "C" fn reject_ece(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int {
    // SAFETY: the caller's promises are passed on.
    unsafe { refuse(id, RejReason::VENDOR_OPTION, data, length) }
}

/// # Safety
///
/// As for [`reject`].
unsafe fn refuse(id: *mut rdma_cm_id, reason: RejReason, data: *const c_void, length: u8) -> c_int {
    // SAFETY: the caller passes an id and private data.
    let (id, data) = unsafe { (Id::of(id), bytes(data.cast::<u8>(), length.into())) };
    let refuse = || -> Result<(), Errno> {
        let (device, connection) = connection(&id.state())?;
        if id.is_datagram() {
            return Ok(device.manager.answer(connection, Err(SidrStatus::REJECTED), data)?);
        }
        Ok(device.manager.reject(connection, reason, &[], data)?)
    };
    zero_or_minus_one(refuse())
}

/// `rdma_establish(3)`: for who brings the queue pair to RTS itself.
///
/// # Safety
///
/// `id` is an id.
pub(super) unsafe extern "C" fn establish(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the caller passes an id.
    let id = unsafe { Id::of(id) };
    let establish = || -> Result<(), Errno> {
        if !id.seen(|c| c.qp.is_null()) {
            return Err(Errno::INVALID);
        }
        let (device, connection) = connection(&id.state())?;
        Ok(device.manager.establish(connection, &[])?)
    };
    zero_or_minus_one(establish())
}

/// `rdma_disconnect(3)`.
///
/// # Safety
///
/// `id` is an id.
pub(super) unsafe extern "C" fn disconnect(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the caller passes an id.
    let id = unsafe { Id::of(id) };
    let disconnect = || -> Result<(), Errno> {
        let (device, connection) = connection(&id.state())?;
        if id.is_datagram() {
            return Err(Errno::INVALID);
        }
        queue_pair::fail(id)?;
        match device.manager.disconnect(connection, &[]) {
            // The peer was faster: what is over can be ended once more.
            Ok(()) | Err(ManagerError::Refused(_)) => id.complete(),
            Err(error) => Err(error.into()),
        }
    };
    zero_or_minus_one(disconnect())
}

/// `rdma_notify(3)`: something happened to a queue pair that the program made itself.
///
/// # Safety
///
/// `id` is an id.
pub(super) unsafe extern "C" fn notify(id: *mut rdma_cm_id, event: c_uint) -> c_int {
    // SAFETY: the caller passes an id.
    let id = unsafe { Id::of(id) };
    let notify = || -> Result<(), Errno> {
        let (device, connection) = connection(&id.state())?;
        match event {
            IBV_EVENT_COMM_EST => Ok(device.manager.notify_established(connection)?),
            _ => Err(Errno::INVALID),
        }
    };
    zero_or_minus_one(notify())
}

/// The connection of an id.
fn connection(state: &State) -> Result<(&'static CmDevice, CmId), Errno> {
    match (state.stage, state.device) {
        (Stage::Connection(connection, _), Some(device)) => Ok((device, connection)),
        _ => Err(Errno::INVALID),
    }
}
