//! Attributes of devices and ports.

use std::ffi::{c_int, c_uint};

use nic::verbs::{Limits, Mtu, PortState};

use super::queue_pair::mtu_code;
use crate::abi::{
    layout::Zeroed,
    types::{
        constants::*,
        device::{ibv_device_attr, ibv_port_attr},
    },
};

/// What the adapter does of what there are flags for.
const DEVICE_CAPABILITIES: c_uint = IBV_DEVICE_CURR_QP_STATE_MOD
    | IBV_DEVICE_PORT_ACTIVE_EVENT
    | IBV_DEVICE_SYS_IMAGE_GUID
    | IBV_DEVICE_RC_RNR_NAK_GEN
    | IBV_DEVICE_SRQ_RESIZE
    | IBV_DEVICE_MEM_WINDOW
    | IBV_DEVICE_MEM_WINDOW_TYPE_2B
    | IBV_DEVICE_MEM_MGT_EXTENSIONS;

/// Page sizes: all from 4 KiB on.
const PAGE_SIZES: u64 = !0xfff;

/// A link of four lanes at 10 Gb/s each (IBTA vol. 1, 14.2.5.6, PortInfo): what a machine moves in software.
const WIDTH_4X: u8 = 2;
const SPEED_QDR: u8 = 4;

/// The physical port is up (IBTA vol. 1, 14.2.5.6, PortInfo).
const LINK_UP: u8 = 5;

/// It has nothing to carry.
const LINK_DISABLED: u8 = 3;

/// `IBV_QPF_GRH_REQUIRED`: every address needs a global part.
const GRH_REQUIRED: u8 = 1;

/// Attributes of a device, but for its version.
pub(crate) fn device_attr(limits: &Limits, guid: u64) -> ibv_device_attr {
    ibv_device_attr {
        node_guid: guid.to_be(),
        sys_image_guid: guid.to_be(),
        max_mr_size: limits.max_mr_size,
        page_size_cap: PAGE_SIZES,
        vendor_id: host::device::VENDOR_ID,
        vendor_part_id: host::device::VENDOR_PART_ID,
        max_qp: int(limits.max_qp),
        max_qp_wr: int(limits.max_qp_wr),
        device_cap_flags: DEVICE_CAPABILITIES,
        max_sge: int(limits.max_sge),
        max_sge_rd: int(limits.max_sge_rd),
        max_cq: int(limits.max_cq),
        max_cqe: int(limits.max_cqe),
        max_mr: int(limits.max_mr),
        max_pd: int(limits.max_pd),
        max_qp_rd_atom: limits.max_qp_rd_atom.into(),
        max_res_rd_atom: int(u32::from(limits.max_qp_rd_atom).saturating_mul(limits.max_qp)),
        max_qp_init_rd_atom: limits.max_qp_init_rd_atom.into(),
        // They are the processor's own, so its other accesses see them as atomic.
        atomic_cap: IBV_ATOMIC_GLOB,
        max_mw: int(limits.max_mw),
        max_mcast_grp: int(limits.max_mcast_grp),
        max_mcast_qp_attach: int(limits.max_mcast_qp_attach),
        max_total_mcast_qp_attach: int(limits.max_mcast_grp.saturating_mul(limits.max_mcast_qp_attach)),
        max_ah: int(limits.max_ah),
        max_srq: int(limits.max_srq),
        max_srq_wr: int(limits.max_srq_wr),
        max_srq_sge: int(limits.max_srq_sge),
        max_pkeys: 1,
        local_ca_ack_delay: 15, // 4.096 us times two to this power: 134 ms, for a thread may have to be scheduled
        phys_port_cnt: 1,
        ..ibv_device_attr::zeroed()
    }
}

/// Attributes of the port, which has `gids` entries in its table.
pub(crate) fn port_attr(limits: &Limits, (state, mtu): (PortState, Mtu), gids: u32) -> ibv_port_attr {
    let is_up = state == PortState::Active;
    ibv_port_attr {
        state: if is_up { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN },
        max_mtu: mtu_code(Mtu::Mtu4096),
        active_mtu: mtu_code(mtu),
        gid_tbl_len: int(gids),
        port_cap_flags: IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        max_msg_sz: limits.max_message_size,
        pkey_tbl_len: 1,
        max_vl_num: 1,
        active_width: WIDTH_4X,
        active_speed: SPEED_QDR,
        phys_state: if is_up { LINK_UP } else { LINK_DISABLED },
        link_layer: IBV_LINK_LAYER_ETHERNET,
        flags: GRH_REQUIRED,
        ..ibv_port_attr::zeroed()
    }
}

/// A limit in a signed field.
fn int(limit: u32) -> c_int {
    c_int::try_from(limit).unwrap_or(c_int::MAX)
}
