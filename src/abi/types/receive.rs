//! Receive queues that are not a queue pair's own: shared ones, and work queues.

use std::ffi::{c_int, c_uint, c_void};

use libc::{pthread_cond_t, pthread_mutex_t};

use super::{
    completion::ibv_cq,
    context::ibv_context,
    memory::{ibv_pd, ibv_sge, ibv_xrcd},
    work::ibv_recv_wr,
};
use crate::abi::layout::c_structs;

c_structs! {
    /// The attributes of a shared receive queue.
    struct ibv_srq_attr {
        max_wr: u32,
        max_sge: u32,
        srq_limit: u32,
    }

    /// How to make a shared receive queue.
    struct ibv_srq_init_attr {
        srq_context: *mut c_void,
        attr: ibv_srq_attr,
    }

    /// How many tags a shared receive queue matches.
    struct ibv_tm_cap {
        max_num_tags: u32,
        max_ops: u32,
    }

    /// How to make an extended shared receive queue; begins like [`ibv_srq_init_attr`].
    struct ibv_srq_init_attr_ex {
        srq_context: *mut c_void,
        attr: ibv_srq_attr,
        comp_mask: u32,
        srq_type: c_uint,
        pd: *mut ibv_pd,
        xrcd: *mut ibv_xrcd,
        cq: *mut ibv_cq,
        tm_cap: ibv_tm_cap,
    }

    /// A shared receive queue.
    struct ibv_srq {
        context: *mut ibv_context,
        srq_context: *mut c_void,
        pd: *mut ibv_pd,
        handle: u32,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }

    /// An operation on a shared receive queue's list of tags.
    struct ibv_ops_wr {
        wr_id: u64,
        next: *mut ibv_ops_wr,
        opcode: c_uint,
        flags: c_int,
        tm: ibv_ops_wr_tm,
    }

    /// The tag that an operation is about.
    struct ibv_ops_wr_tm = "__typeof__(((struct ibv_ops_wr *)0)->tm)" {
        unexpected_cnt: u32,
        handle: u32,
        add: ibv_ops_wr_tm_add,
    }

    /// The tag and the buffer to add.
    struct ibv_ops_wr_tm_add = "__typeof__(((struct ibv_ops_wr *)0)->tm.add)" {
        recv_wr_id: u64,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        tag: u64,
        mask: u64,
    }

    /// How to make a work queue.
    struct ibv_wq_init_attr {
        wq_context: *mut c_void,
        wq_type: c_uint,
        max_wr: u32,
        max_sge: u32,
        pd: *mut ibv_pd,
        cq: *mut ibv_cq,
        comp_mask: u32,
        create_flags: u32,
    }

    /// The attributes of a work queue.
    struct ibv_wq_attr {
        attr_mask: u32,
        wq_state: c_uint,
        curr_wq_state: c_uint,
        flags: u32,
        flags_mask: u32,
    }

    /// A work queue.
    struct ibv_wq {
        context: *mut ibv_context,
        wq_context: *mut c_void,
        pd: *mut ibv_pd,
        cq: *mut ibv_cq,
        wq_num: u32,
        handle: u32,
        state: c_uint,
        wq_type: c_uint,
        post_recv: Option<unsafe extern "C" fn(*mut ibv_wq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
        comp_mask: u32,
    }

    /// How to make a table over work queues.
    struct ibv_rwq_ind_table_init_attr {
        log_ind_tbl_size: u32,
        ind_tbl: *mut *mut ibv_wq,
        comp_mask: u32,
    }

    /// A table that spreads packets over work queues.
    struct ibv_rwq_ind_table {
        context: *mut ibv_context,
        ind_tbl_handle: c_int,
        ind_tbl_num: c_int,
        comp_mask: u32,
    }
}
