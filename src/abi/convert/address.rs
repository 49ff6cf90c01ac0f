//! Addresses.

use nic::verbs::AddressVector;
use wire::Gid;

use crate::abi::types::{
    address::{ibv_ah_attr, ibv_global_route},
    device::ibv_gid,
};

/// A GID from its 16 bytes.
pub(crate) fn gid(gid: &ibv_gid) -> Gid {
    // SAFETY: every field of the union is 16 bytes of which any value is valid.
    Gid(unsafe { gid.raw })
}

/// A GID as its 16 bytes.
pub(crate) fn to_gid(gid: Gid) -> ibv_gid {
    ibv_gid { raw: gid.0 }
}

/// The path that an address describes.
pub(crate) fn address_vector(attr: &ibv_ah_attr) -> AddressVector {
    AddressVector {
        destination: gid(&attr.grh.dgid),
        source_gid_index: attr.grh.sgid_index,
        traffic_class: attr.grh.traffic_class,
        hop_limit: attr.grh.hop_limit,
        flow_label: attr.grh.flow_label,
        service_level: attr.sl,
        static_rate: attr.static_rate,
        source_path_bits: attr.src_path_bits,
        destination_lid: attr.dlid,
        is_global: attr.is_global != 0,
        port: attr.port_num,
    }
}

/// The address that describes a path.
pub(crate) fn ah_attr(path: &AddressVector) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: to_gid(path.destination),
            flow_label: path.flow_label,
            sgid_index: path.source_gid_index,
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
        },
        dlid: path.destination_lid,
        sl: path.service_level,
        src_path_bits: path.source_path_bits,
        static_rate: path.static_rate,
        is_global: path.is_global.into(),
        port_num: path.port,
    }
}
