//! Flow steering and counters: only what the tables name, since no device of ours has them.

use std::ffi::{c_uint, c_void};

use super::context::ibv_context;
use crate::abi::layout::c_structs;

c_structs! {
    /// A steering rule.
    struct ibv_flow {
        comp_mask: u32,
        context: *mut ibv_context,
        handle: u32,
    }

    /// How to make a steering rule; specifications of its layers follow in memory.
    struct ibv_flow_attr {
        comp_mask: u32,
        r#type: c_uint,
        size: u16,
        priority: u16,
        num_of_specs: u8,
        port: u8,
        flags: u32,
    }

    /// What a steering rule does with a packet.
    struct ibv_flow_action {
        context: *mut ibv_context,
    }

    /// Encryption that a steering rule applies.
    struct ibv_flow_action_esp_attr {
        esp_attr: *mut c_void,
        keymat_proto: c_uint,
        keymat_len: u16,
        keymat_ptr: *mut c_void,
        replay_proto: c_uint,
        replay_len: u16,
        replay_ptr: *mut c_void,
        esp_encap: *mut c_void,
        comp_mask: u32,
        esn: u32,
    }

    /// How to make a set of counters; has only room for extensions.
    struct ibv_counters_init_attr {
        comp_mask: u32,
    }

    /// A set of counters.
    struct ibv_counters {
        context: *mut ibv_context,
    }

    /// Which counter goes where in a set.
    struct ibv_counter_attach_attr {
        counter_desc: c_uint,
        index: u32,
        comp_mask: u32,
    }
}
