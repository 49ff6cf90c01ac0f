//! Work requests.

use std::ffi::{c_int, c_uint, c_void};

use super::{
    address::ibv_ah,
    memory::{ibv_mw, ibv_mw_bind_info, ibv_sge},
};
use crate::abi::layout::c_structs;

c_structs! {
    /// A request to a send queue.
    struct ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: c_uint,
        send_flags: c_uint,
        /// Immediate data, big-endian, or the rkey to invalidate.
        imm_data: u32,
        wr: ibv_send_wr_remote,
        qp_type: ibv_send_wr_qp_type,
        /// The start of an unnamed union, which C reaches by the names of its members.
        bind_mw: ibv_send_wr_bind_mw,
    }

    /// Where a request goes: which field is meant follows from the opcode and from the queue pair's type.
    union ibv_send_wr_remote = "__typeof__(((struct ibv_send_wr *)0)->wr)" {
        rdma: ibv_send_wr_rdma,
        atomic: ibv_send_wr_atomic,
        ud: ibv_send_wr_ud,
    }

    /// The memory that a READ or WRITE accesses.
    struct ibv_send_wr_rdma = "__typeof__(((struct ibv_send_wr *)0)->wr.rdma)" {
        remote_addr: u64,
        rkey: u32,
    }

    /// The memory and the operands of an atomic.
    struct ibv_send_wr_atomic = "__typeof__(((struct ibv_send_wr *)0)->wr.atomic)" {
        remote_addr: u64,
        compare_add: u64,
        swap: u64,
        rkey: u32,
    }

    /// The queue pair that a datagram goes to.
    struct ibv_send_wr_ud = "__typeof__(((struct ibv_send_wr *)0)->wr.ud)" {
        ah: *mut ibv_ah,
        remote_qpn: u32,
        remote_qkey: u32,
    }

    /// What belongs to one type of queue pair.
    union ibv_send_wr_qp_type = "__typeof__(((struct ibv_send_wr *)0)->qp_type)" {
        xrc: ibv_send_wr_xrc,
    }

    /// The shared receive queue that an XRC request goes to.
    struct ibv_send_wr_xrc = "__typeof__(((struct ibv_send_wr *)0)->qp_type.xrc)" {
        remote_srqn: u32,
    }

    /// A bind of a memory window of type 2.
    struct ibv_send_wr_bind_mw = "__typeof__(((struct ibv_send_wr *)0)->bind_mw)" {
        mw: *mut ibv_mw,
        rkey: u32,
        bind_info: ibv_mw_bind_info,
    }

    /// A packet to be cut into TCP segments.
    struct ibv_send_wr_tso = "__typeof__(((struct ibv_send_wr *)0)->tso)" {
        hdr: *mut c_void,
        hdr_sz: u16,
        mss: u16,
    }

    /// A buffer for a receive queue.
    struct ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }
}
