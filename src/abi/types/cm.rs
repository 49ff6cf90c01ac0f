//! The structures and constants of `rdma_cma.h` and `rsocket.h`: connection management.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{sockaddr, sockaddr_storage, socklen_t};

use super::{
    address::ibv_ah_attr,
    completion::{ibv_comp_channel, ibv_cq},
    context::ibv_context,
    device::ibv_gid,
    kernel::ibv_sa_path_rec,
    memory::ibv_pd,
    queue_pair::ibv_qp,
    receive::ibv_srq,
};
use crate::abi::layout::{c_constants, c_structs};

c_structs! {
    /// Both ends of a connection as GIDs.
    struct rdma_ib_addr {
        sgid: ibv_gid,
        dgid: ibv_gid,
        pkey: u16,
    }

    /// The part of an address that depends on the network.
    union rdma_addr_addr = "__typeof__(((struct rdma_addr *)0)->addr)" {
        ibaddr: rdma_ib_addr,
    }

    /// Both ends of a connection.
    struct rdma_addr {
        src_storage: sockaddr_storage,
        dst_storage: sockaddr_storage,
        addr: rdma_addr_addr,
    }

    /// The way to the peer.
    struct rdma_route {
        addr: rdma_addr,
        path_rec: *mut ibv_sa_path_rec,
        num_paths: c_int,
    }

    /// Where events come.
    struct rdma_event_channel {
        fd: c_int,
    }

    /// A connection, a listener, or a datagram service: what a socket is to TCP.
    struct rdma_cm_id {
        verbs: *mut ibv_context,
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        qp: *mut ibv_qp,
        route: rdma_route,
        ps: c_uint,
        port_num: u8,
        event: *mut rdma_cm_event,
        send_cq_channel: *mut ibv_comp_channel,
        send_cq: *mut ibv_cq,
        recv_cq_channel: *mut ibv_comp_channel,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        pd: *mut ibv_pd,
        qp_type: c_uint,
    }

    /// What one side of a connection brings, or what the other brought.
    struct rdma_conn_param {
        private_data: *const c_void,
        private_data_len: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        srq: u8,
        qp_num: u32,
    }

    /// How to reach a datagram service.
    struct rdma_ud_param {
        private_data: *const c_void,
        private_data_len: u8,
        ah_attr: ibv_ah_attr,
        qp_num: u32,
        qkey: u32,
    }

    /// What an event brings: which field is meant follows from the port space.
    union rdma_cm_event_param = "__typeof__(((struct rdma_cm_event *)0)->param)" {
        conn: rdma_conn_param,
        ud: rdma_ud_param,
    }

    /// News of a connection.
    struct rdma_cm_event {
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        event: c_uint,
        status: c_int,
        param: rdma_cm_event_param,
    }

    /// What a name resolves to; or what is wanted of that.
    struct rdma_addrinfo {
        ai_flags: c_int,
        ai_family: c_int,
        ai_qp_type: c_int,
        ai_port_space: c_int,
        ai_src_len: socklen_t,
        ai_dst_len: socklen_t,
        ai_src_addr: *mut sockaddr,
        ai_dst_addr: *mut sockaddr,
        ai_src_canonname: *mut c_char,
        ai_dst_canonname: *mut c_char,
        ai_route_len: usize,
        ai_route: *mut c_void,
        ai_connect_len: usize,
        ai_connect: *mut c_void,
        ai_next: *mut rdma_addrinfo,
    }

    /// How to join a multicast group.
    struct rdma_cm_join_mc_attr_ex {
        comp_mask: u32,
        join_flags: u32,
        addr: *mut sockaddr,
    }

    /// A path record as on the wire: numbers are big-endian.
    struct ibv_path_record {
        service_id: u64,
        dgid: ibv_gid,
        sgid: ibv_gid,
        dlid: u16,
        slid: u16,
        flowlabel_hoplimit: u32,
        tclass: u8,
        reversible_numpath: u8,
        pkey: u16,
        qosclass_sl: u16,
        mtu: u8,
        rate: u8,
        packetlifetime: u8,
        preference: u8,
        reserved: [u8; 6],
    }

    /// A path that a program sets, and what it is for.
    struct ibv_path_data {
        flags: u32,
        reserved: u32,
        path: ibv_path_record,
    }
}

c_constants! {
    /// Events.
    c_uint {
        RDMA_CM_EVENT_ADDR_RESOLVED = 0,
        RDMA_CM_EVENT_ADDR_ERROR = 1,
        RDMA_CM_EVENT_ROUTE_RESOLVED = 2,
        RDMA_CM_EVENT_ROUTE_ERROR = 3,
        RDMA_CM_EVENT_CONNECT_REQUEST = 4,
        RDMA_CM_EVENT_CONNECT_RESPONSE = 5,
        RDMA_CM_EVENT_CONNECT_ERROR = 6,
        RDMA_CM_EVENT_UNREACHABLE = 7,
        RDMA_CM_EVENT_REJECTED = 8,
        RDMA_CM_EVENT_ESTABLISHED = 9,
        RDMA_CM_EVENT_DISCONNECTED = 10,
        RDMA_CM_EVENT_DEVICE_REMOVAL = 11,
        RDMA_CM_EVENT_MULTICAST_JOIN = 12,
        RDMA_CM_EVENT_MULTICAST_ERROR = 13,
        RDMA_CM_EVENT_ADDR_CHANGE = 14,
        RDMA_CM_EVENT_TIMEWAIT_EXIT = 15,
    }

    /// Port spaces.
    c_uint {
        RDMA_PS_IPOIB = 0x0002,
        RDMA_PS_TCP = 0x0106,
        RDMA_PS_UDP = 0x0111,
        RDMA_PS_IB = 0x013f,
    }

    /// The queue key of datagram services.
    u32 {
        RDMA_UDP_QKEY = 0x0123_4567,
    }

    /// READs and atomics at once: as many as the device takes.
    u8 {
        RDMA_MAX_RESP_RES = 0xff,
        RDMA_MAX_INIT_DEPTH = 0xff,
    }

    /// What is wanted of the resolution of a name.
    c_int {
        RAI_PASSIVE = 1 << 0,
        RAI_NUMERICHOST = 1 << 1,
        RAI_NOROUTE = 1 << 2,
        RAI_FAMILY = 1 << 3,
    }

    /// Fields that are set of [`rdma_cm_join_mc_attr_ex`].
    u32 {
        RDMA_CM_JOIN_MC_ATTR_ADDRESS = 1 << 0,
        RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 1 << 1,
    }

    /// Kinds of membership in a multicast group.
    u32 {
        RDMA_MC_JOIN_FLAG_FULLMEMBER = 0,
        RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER = 1,
    }

    /// Levels of options.
    c_int {
        RDMA_OPTION_ID = 0,
        RDMA_OPTION_IB = 1,
    }

    /// Options.
    c_int {
        RDMA_OPTION_ID_TOS = 0,
        RDMA_OPTION_ID_REUSEADDR = 1,
        RDMA_OPTION_ID_AFONLY = 2,
        RDMA_OPTION_ID_ACK_TIMEOUT = 3,
        RDMA_OPTION_IB_PATH = 1,
    }

    /// What a path that a program sets is for.
    u32 {
        IBV_PATH_FLAG_GMP = 1 << 0,
        IBV_PATH_FLAG_PRIMARY = 1 << 1,
        IBV_PATH_FLAG_ALTERNATE = 1 << 2,
        IBV_PATH_FLAG_OUTBOUND = 1 << 3,
        IBV_PATH_FLAG_INBOUND = 1 << 4,
        IBV_PATH_FLAG_INBOUND_REVERSE = 1 << 5,
        IBV_PATH_FLAG_BIDIRECTIONAL = 1 << 3 | 1 << 5,
    }

    /// The level of rsockets' options.
    c_int {
        SOL_RDMA = 0x10000,
    }

    /// Options of rsockets.
    c_int {
        RDMA_SQSIZE = 0,
        RDMA_RQSIZE = 1,
        RDMA_INLINE = 2,
        RDMA_IOMAPSIZE = 3,
        RDMA_ROUTE = 4,
    }
}
