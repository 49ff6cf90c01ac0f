//! librdmacm: every symbol of release 44, bound to its function.
//!
//! ```text
//!  calls of the program                              rdma_get_cm_event
//!   │ create, bind, resolve, connect, accept, ...           ▲ `event`: changes queue pairs, makes ids of requests
//!   ▼                                                       │
//!  `id` (what it has come to) ─────── news ────────► `channel`: a queue behind a descriptor
//!   │                                                       ▲
//!   ▼                                                       │ `news`: whom to tell
//!  host::cm::ConnectionManager ──── events of peers ────────┘
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `id` | the id: its life, and what it has come to |
//! | `resolve` | where it is and where it goes to; listening |
//! | `connect` | asking, accepting, refusing, ending |
//! | `event`, `channel`, `news` | what happens, on its way to the program |
//! | `queue_pair` | the queue pair of an id, and what it is made of |
//! | `endpoint` | ids that come with all they need |
//! | `multicast`, `options`, `addrinfo`, `address`, `names` | what the words say |
//! | `device` | the device, opened once |

mod address;
mod addrinfo;
mod channel;
mod connect;
mod device;
mod endpoint;
mod event;
mod id;
mod multicast;
mod names;
mod news;
mod options;
mod queue_pair;
mod resolve;

pub(super) use address::{length as address_length, read as read_address, storage};

use super::{export::export, rsocket};

export! {
    "@@RDMACM_1.0" {
        raccept = rsocket::accept;
        rbind = rsocket::bind;
        rclose = rsocket::close;
        rconnect = rsocket::connect;
        rdma_accept = connect::accept;
        rdma_ack_cm_event = event::ack_cm_event;
        rdma_bind_addr = resolve::bind_addr;
        rdma_connect = connect::connect;
        rdma_create_ep = endpoint::create_ep;
        rdma_create_event_channel = channel::create_event_channel;
        rdma_create_id = id::create_id;
        rdma_create_qp = queue_pair::create_qp;
        rdma_create_qp_ex = queue_pair::create_qp_ex;
        rdma_create_srq = queue_pair::create_srq;
        rdma_create_srq_ex = queue_pair::create_srq_ex;
        rdma_destroy_ep = endpoint::destroy_ep;
        rdma_destroy_event_channel = channel::destroy_event_channel;
        rdma_destroy_id = id::destroy_id;
        rdma_destroy_qp = queue_pair::destroy_qp;
        rdma_destroy_srq = queue_pair::destroy_srq;
        rdma_disconnect = connect::disconnect;
        rdma_event_str = names::event_str;
        rdma_free_devices = device::free_devices;
        rdma_freeaddrinfo = addrinfo::freeaddrinfo;
        rdma_get_cm_event = event::get_cm_event;
        rdma_get_devices = device::get_devices;
        rdma_get_dst_port = address::dst_port;
        rdma_get_request = endpoint::get_request;
        rdma_get_src_port = address::src_port;
        rdma_getaddrinfo = addrinfo::getaddrinfo;
        rdma_join_multicast = multicast::join_multicast;
        rdma_leave_multicast = multicast::leave_multicast;
        rdma_listen = resolve::listen;
        rdma_migrate_id = channel::migrate_id;
        rdma_notify = connect::notify;
        rdma_reject = connect::reject;
        rdma_resolve_addr = resolve::resolve_addr;
        rdma_resolve_route = resolve::resolve_route;
        rdma_set_option = options::set_option;
        rfcntl = rsocket::fcntl;
        rgetpeername = rsocket::getpeername;
        rgetsockname = rsocket::getsockname;
        rgetsockopt = rsocket::getsockopt;
        riomap = rsocket::iomap;
        riounmap = rsocket::iounmap;
        riowrite = rsocket::iowrite;
        rlisten = rsocket::listen;
        rpoll = rsocket::poll;
        rread = rsocket::read;
        rreadv = rsocket::readv;
        rrecv = rsocket::recv;
        rrecvfrom = rsocket::recvfrom;
        rrecvmsg = rsocket::recvmsg;
        rselect = rsocket::select;
        rsend = rsocket::send_to_peer;
        rsendmsg = rsocket::sendmsg;
        rsendto = rsocket::sendto;
        rsetsockopt = rsocket::setsockopt;
        rshutdown = rsocket::shutdown;
        rsocket = rsocket::socket;
        rwrite = rsocket::write;
        rwritev = rsocket::writev;
    }
    "@@RDMACM_1.1" {
        rdma_join_multicast_ex = multicast::join_multicast_ex;
    }
    "@@RDMACM_1.2" {
        rdma_establish = connect::establish;
        rdma_init_qp_attr = queue_pair::init_qp_attr;
    }
    "@@RDMACM_1.3" {
        rdma_get_remote_ece = options::remote_ece;
        rdma_reject_ece = connect::reject_ece;
        rdma_set_local_ece = options::set_local_ece;
    }
}
