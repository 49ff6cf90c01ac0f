//! libibverbs: every symbol of release 44, bound to its function.

mod address;
mod completion;
mod context;
mod device;
mod events;
mod extended_cq;
mod extended_qp;
mod kernel;
mod memory;
mod names;
mod port;
mod post;
mod process;
mod queue_pair;
mod rates;
mod receive;
mod unsupported;

pub(crate) use address::Ah;
pub(crate) use memory::{Mr, Mw};

// What connection management is made of.
pub(super) use completion::{create_comp_channel, create_cq, destroy_comp_channel, destroy_cq};
pub(super) use context::adapter;
pub(super) use device::open;
pub(super) use memory::alloc_pd;
pub(super) use queue_pair::{apply, attach_mcast, create_qp_ex, destroy_qp, detach_mcast};
pub(super) use receive::{create_srq_ex, destroy_srq};

use super::export::{export, export_flag};

export! {
    "@IBVERBS_1.0" {
        ibv_ack_async_event = unsupported::nothing;
        ibv_ack_cq_events = unsupported::nothing;
        ibv_alloc_pd = unsupported::object;
        ibv_attach_mcast = unsupported::status;
        ibv_close_device = unsupported::status;
        ibv_create_ah = unsupported::object;
        ibv_create_cq = unsupported::object;
        ibv_create_qp = unsupported::object;
        ibv_create_srq = unsupported::object;
        ibv_dealloc_pd = unsupported::status;
        ibv_dereg_mr = unsupported::status;
        ibv_destroy_ah = unsupported::status;
        ibv_destroy_cq = unsupported::status;
        ibv_destroy_qp = unsupported::status;
        ibv_destroy_srq = unsupported::status;
        ibv_detach_mcast = unsupported::status;
        ibv_free_device_list = unsupported::nothing;
        ibv_get_async_event = unsupported::minus_one;
        ibv_get_cq_event = unsupported::minus_one;
        ibv_get_device_guid = unsupported::nothing;
        ibv_get_device_list = unsupported::object;
        ibv_get_device_name = unsupported::object;
        ibv_modify_qp = unsupported::status;
        ibv_modify_srq = unsupported::status;
        ibv_open_device = unsupported::object;
        ibv_query_device = unsupported::status;
        ibv_query_gid = unsupported::minus_one;
        ibv_query_pkey = unsupported::minus_one;
        ibv_query_port = unsupported::status;
        ibv_query_qp = unsupported::status;
        ibv_query_srq = unsupported::status;
        ibv_reg_mr = unsupported::object;
        ibv_resize_cq = unsupported::status;
    }
    "@@IBVERBS_1.0" {
        ibv_copy_path_rec_from_kern = kernel::copy_path_rec_from_kern;
        ibv_copy_path_rec_to_kern = kernel::copy_path_rec_to_kern;
        ibv_copy_qp_attr_from_kern = kernel::copy_qp_attr_from_kern;
        ibv_create_comp_channel = completion::create_comp_channel;
        ibv_destroy_comp_channel = completion::destroy_comp_channel;
        ibv_get_sysfs_path = process::sysfs_path;
        ibv_rate_to_mult = rates::rate_to_mult;
        ibv_read_sysfs_file = process::read_sysfs_file;
        mult_to_ibv_rate = rates::mult_to_rate;
    }
    "@IBVERBS_1.1" {
        ibv_register_driver = unsupported::nothing;
    }
    "@@IBVERBS_1.1" {
        ibv_ack_async_event = events::ack_async_event;
        ibv_ack_cq_events = completion::ack_cq_events;
        ibv_alloc_pd = memory::alloc_pd;
        ibv_attach_mcast = queue_pair::attach_mcast;
        ibv_close_device = device::close_device;
        ibv_copy_ah_attr_from_kern = kernel::copy_ah_attr_from_kern;
        ibv_create_ah = address::create_ah;
        ibv_create_ah_from_wc = address::create_ah_from_wc;
        ibv_create_cq = completion::create_cq;
        ibv_create_qp = queue_pair::create_qp;
        ibv_create_srq = receive::create_srq;
        ibv_dealloc_pd = memory::dealloc_pd;
        ibv_dereg_mr = memory::dereg_mr;
        ibv_destroy_ah = address::destroy_ah;
        ibv_destroy_cq = completion::destroy_cq;
        ibv_destroy_qp = queue_pair::destroy_qp;
        ibv_destroy_srq = receive::destroy_srq;
        ibv_detach_mcast = queue_pair::detach_mcast;
        ibv_dofork_range = process::dofork_range;
        ibv_dontfork_range = process::dontfork_range;
        ibv_event_type_str = names::event_type_str;
        ibv_fork_init = process::fork_init;
        ibv_free_device_list = device::free_device_list;
        ibv_get_async_event = events::get_async_event;
        ibv_get_cq_event = completion::get_cq_event;
        ibv_get_device_guid = device::get_device_guid;
        ibv_get_device_list = device::get_device_list;
        ibv_get_device_name = device::get_device_name;
        ibv_init_ah_from_wc = address::init_ah_from_wc;
        ibv_modify_qp = queue_pair::modify_qp;
        ibv_modify_srq = receive::modify_srq;
        ibv_node_type_str = names::node_type_str;
        ibv_open_device = device::open_device;
        ibv_port_state_str = names::port_state_str;
        ibv_query_device = device::query_device;
        ibv_query_gid = port::query_gid;
        ibv_query_pkey = port::query_pkey;
        ibv_query_port = port::query_port_short;
        ibv_query_qp = queue_pair::query_qp;
        ibv_query_srq = receive::query_srq;
        ibv_rate_to_mbps = rates::rate_to_mbps;
        ibv_reg_mr = memory::reg_mr;
        ibv_rereg_mr = memory::rereg_mr;
        ibv_resize_cq = completion::resize_cq;
        ibv_resolve_eth_l2_from_gid = unsupported::status;
        ibv_wc_status_str = names::wc_status_str;
        mbps_to_ibv_rate = rates::mbps_to_rate;
    }
    "@@IBVERBS_1.5" {
        ibv_get_pkey_index = port::get_pkey_index;
    }
    "@@IBVERBS_1.6" {
        ibv_qp_to_qp_ex = queue_pair::qp_to_qp_ex;
    }
    "@@IBVERBS_1.7" {
        ibv_reg_mr_iova = memory::reg_mr_iova;
    }
    "@@IBVERBS_1.8" {
        ibv_reg_mr_iova2 = memory::reg_mr_iova2;
    }
    "@@IBVERBS_1.9" {
        ibv_get_device_index = device::get_device_index;
    }
    "@@IBVERBS_1.10" {
        ibv_import_device = unsupported::object;
        ibv_import_mr = unsupported::object;
        ibv_import_pd = unsupported::object;
        ibv_query_ece = unsupported::status;
        ibv_set_ece = unsupported::status;
        ibv_unimport_mr = unsupported::nothing;
        ibv_unimport_pd = unsupported::nothing;
    }
    "@@IBVERBS_1.11" {
        _ibv_query_gid_ex = port::query_gid_ex;
        _ibv_query_gid_table = port::query_gid_table;
    }
    "@@IBVERBS_1.12" {
        ibv_reg_dmabuf_mr = unsupported::object;
    }
    "@@IBVERBS_1.13" {
        ibv_import_dm = unsupported::object;
        ibv_is_fork_initialized = process::is_fork_initialized;
        ibv_unimport_dm = unsupported::nothing;
    }
    "@@IBVERBS_1.14" {
        ibv_query_qp_data_in_order = unsupported::nothing;
    }
    "@@IBVERBS_PRIVATE_34" {
        __ioctl_final_num_attrs = unsupported::nothing;
        __verbs_log = unsupported::nothing;
        _verbs_init_and_alloc_context = unsupported::object;
        execute_ioctl = unsupported::status;
        ibv_cmd_advise_mr = unsupported::status;
        ibv_cmd_alloc_dm = unsupported::status;
        ibv_cmd_alloc_mw = unsupported::status;
        ibv_cmd_alloc_pd = unsupported::status;
        ibv_cmd_attach_mcast = unsupported::status;
        ibv_cmd_close_xrcd = unsupported::status;
        ibv_cmd_create_ah = unsupported::status;
        ibv_cmd_create_counters = unsupported::status;
        ibv_cmd_create_cq = unsupported::status;
        ibv_cmd_create_cq_ex = unsupported::status;
        ibv_cmd_create_flow = unsupported::status;
        ibv_cmd_create_flow_action_esp = unsupported::status;
        ibv_cmd_create_qp = unsupported::status;
        ibv_cmd_create_qp_ex = unsupported::status;
        ibv_cmd_create_qp_ex2 = unsupported::status;
        ibv_cmd_create_rwq_ind_table = unsupported::status;
        ibv_cmd_create_srq = unsupported::status;
        ibv_cmd_create_srq_ex = unsupported::status;
        ibv_cmd_create_wq = unsupported::status;
        ibv_cmd_dealloc_mw = unsupported::status;
        ibv_cmd_dealloc_pd = unsupported::status;
        ibv_cmd_dereg_mr = unsupported::status;
        ibv_cmd_destroy_ah = unsupported::status;
        ibv_cmd_destroy_counters = unsupported::status;
        ibv_cmd_destroy_cq = unsupported::status;
        ibv_cmd_destroy_flow = unsupported::status;
        ibv_cmd_destroy_flow_action = unsupported::status;
        ibv_cmd_destroy_qp = unsupported::status;
        ibv_cmd_destroy_rwq_ind_table = unsupported::status;
        ibv_cmd_destroy_srq = unsupported::status;
        ibv_cmd_destroy_wq = unsupported::status;
        ibv_cmd_detach_mcast = unsupported::status;
        ibv_cmd_free_dm = unsupported::status;
        ibv_cmd_get_context = unsupported::status;
        ibv_cmd_modify_cq = unsupported::status;
        ibv_cmd_modify_flow_action_esp = unsupported::status;
        ibv_cmd_modify_qp = unsupported::status;
        ibv_cmd_modify_qp_ex = unsupported::status;
        ibv_cmd_modify_srq = unsupported::status;
        ibv_cmd_modify_wq = unsupported::status;
        ibv_cmd_open_qp = unsupported::status;
        ibv_cmd_open_xrcd = unsupported::status;
        ibv_cmd_poll_cq = unsupported::status;
        ibv_cmd_post_recv = unsupported::status;
        ibv_cmd_post_send = unsupported::status;
        ibv_cmd_post_srq_recv = unsupported::status;
        ibv_cmd_query_context = unsupported::status;
        ibv_cmd_query_device_any = unsupported::status;
        ibv_cmd_query_mr = unsupported::status;
        ibv_cmd_query_port = unsupported::status;
        ibv_cmd_query_qp = unsupported::status;
        ibv_cmd_query_srq = unsupported::status;
        ibv_cmd_read_counters = unsupported::status;
        ibv_cmd_reg_dm_mr = unsupported::status;
        ibv_cmd_reg_dmabuf_mr = unsupported::status;
        ibv_cmd_reg_mr = unsupported::status;
        ibv_cmd_req_notify_cq = unsupported::status;
        ibv_cmd_rereg_mr = unsupported::status;
        ibv_cmd_resize_cq = unsupported::status;
        ibv_query_gid_type = port::query_gid_type;
        ibv_read_ibdev_sysfs_file = unsupported::minus_one;
        verbs_init_cq = unsupported::nothing;
        verbs_open_device = unsupported::object;
        verbs_register_driver_34 = unsupported::nothing;
        verbs_set_ops = unsupported::nothing;
        verbs_uninit_context = unsupported::nothing;
    }
}

export_flag!(verbs_allow_disassociate_destroy, "@@IBVERBS_PRIVATE_34");
