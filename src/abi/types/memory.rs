//! Protection domains and registered memory.

use std::ffi::{c_int, c_uint, c_void};

use super::context::ibv_context;
use crate::abi::layout::c_structs;

c_structs! {
    /// A protection domain.
    struct ibv_pd {
        context: *mut ibv_context,
        handle: u32,
    }

    /// How to make a thread domain; has only room for extensions.
    struct ibv_td_init_attr {
        comp_mask: u32,
    }

    /// A thread domain: objects that one thread uses.
    struct ibv_td {
        context: *mut ibv_context,
    }

    /// How to make a parent domain: a protection domain with a thread domain or allocators of its own.
    struct ibv_parent_domain_init_attr {
        pd: *mut ibv_pd,
        td: *mut ibv_td,
        comp_mask: u32,
        alloc: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, usize, u64) -> *mut c_void>,
        free: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64)>,
        pd_context: *mut c_void,
    }

    /// How to open an XRC domain.
    struct ibv_xrcd_init_attr {
        comp_mask: u32,
        fd: c_int,
        oflags: c_int,
    }

    /// An XRC domain.
    struct ibv_xrcd {
        context: *mut ibv_context,
    }

    /// A memory region.
    struct ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }

    /// A memory window.
    struct ibv_mw {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        rkey: u32,
        handle: u32,
        r#type: c_uint,
    }

    /// What a memory window is bound to.
    struct ibv_mw_bind_info {
        mr: *mut ibv_mr,
        addr: u64,
        length: u64,
        mw_access_flags: c_uint,
    }

    /// A bind of a memory window of type 1.
    struct ibv_mw_bind {
        wr_id: u64,
        send_flags: c_uint,
        bind_info: ibv_mw_bind_info,
    }

    /// How to allocate memory on the device.
    struct ibv_alloc_dm_attr {
        length: usize,
        log_align_req: u32,
        comp_mask: u32,
    }

    /// Memory on the device.
    struct ibv_dm {
        context: *mut ibv_context,
        memcpy_to_dm: Option<unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int>,
        memcpy_from_dm: Option<unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int>,
        comp_mask: u32,
        handle: u32,
    }

    /// A piece of registered memory: an entry of a scatter/gather list.
    struct ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }

    /// A piece of any memory, to be sent inline.
    struct ibv_data_buf {
        addr: *mut c_void,
        length: usize,
    }
}
