//! Between the values of `verbs.h` and those of the adapter. Values that the adapter has no word for are `EINVAL`.

mod address;
mod attributes;
mod completion;
mod flags;
mod queue_pair;
mod work;

pub(crate) use address::{address_vector, ah_attr, gid, to_gid};
pub(crate) use attributes::{device_attr, port_attr};
pub(crate) use completion::{imm_data, opcode_code, status_code, wc, wc_flags};
pub(crate) use flags::{Flags, access, access_flags};
pub(crate) use queue_pair::{
    capabilities, mtu_code, qp_attr, qp_cap, qp_change, qp_change_attr, qp_state, qp_type, qp_type_code,
    state_code,
};
pub(crate) use work::{
    SgeList, bind_operation, bytes, destination, inline_pieces, send_flags, send_operation, sge_list,
    sge_slice,
};
