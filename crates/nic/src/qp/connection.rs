//! What both halves of a queue pair know of it and its peer.

use wire::{Bth, Headers, Immediate, Opcode, Operation, Psn, Qpn, Service};

use crate::packet::Route;
use crate::port::Port;
use crate::verbs::{AddressVector, Completion, CompletionOpcode, Pd, QpAttributes, QpType, Status};

/// A queue pair's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection<'a> {
    /// Its number.
    pub qpn: Qpn,
    /// What `modify_qp` set.
    pub attributes: &'a QpAttributes,
    /// The way to the peer.
    pub route: &'a Route,
}

impl Connection<'_> {
    /// The protection domain.
    pub fn pd(&self) -> Pd {
        self.attributes.init.pd
    }

    /// The transport service in opcodes.
    pub fn service(&self) -> Service {
        match self.attributes.init.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
        }
    }

    /// Payload bytes of a full packet.
    pub fn mtu(&self) -> u32 {
        self.attributes.path_mtu.bytes()
    }

    /// How many packets, hence PSNs, `length` bytes take: one at least.
    pub fn packets(&self, length: u32) -> u32 {
        length.div_ceil(self.mtu()).max(1)
    }

    /// Headers to the peer without extensions. MigReq is set as it is in the migrated state, which a
    /// connection without an alternate path never leaves (IBTA 17.2.8).
    pub fn headers(&self, operation: Operation, psn: Psn) -> Headers {
        let bth = Bth {
            opcode: Opcode::new(self.service(), operation),
            migrated: true,
            dest_qp: self.attributes.dest_qp,
            psn,
            ..Bth::default()
        };
        Headers { bth, ..Headers::default() }
    }

    /// A completion of this queue pair.
    pub fn completion(&self, wr_id: u64, status: Status, opcode: CompletionOpcode) -> Completion {
        Completion {
            wr_id,
            status,
            vendor_error: 0,
            opcode,
            byte_length: 0,
            immediate: Immediate::None,
            qpn: self.qpn,
            source_qp: Qpn::default(),
            has_grh: false,
            service_level: 0,
            timestamp: 0,
        }
    }
}

impl Route {
    /// The route of a path between two queue pairs, if our GID is there. ECN-capable with `ecn`.
    pub(crate) fn resolve(
        path: &AddressVector,
        port: &Port,
        source_qp: Qpn,
        peer: Qpn,
        ecn: bool,
    ) -> Option<Self> {
        /// The two low bits of the traffic class of a sender that heeds congestion marks (RFC 3168).
        const ECN_CAPABLE: u8 = 0b10;
        const ECN_MASK: u8 = 0b11;
        let source = port.gid(path.source_gid_index)?.gid;
        let ecn_bits = if ecn { ECN_CAPABLE } else { path.traffic_class & ECN_MASK };
        Some(Self {
            source,
            destination: path.destination,
            source_gid_index: path.source_gid_index,
            traffic_class: path.traffic_class & !ECN_MASK | ecn_bits,
            hop_limit: if path.hop_limit == 0 { 64 } else { path.hop_limit },
            flow_label: path.flow_label,
            service_level: path.service_level,
            source_port: source_port(path.flow_label, source_qp, peer),
        })
    }
}

/// A UDP source port of the dynamic range that differs between connections, so that they spread over
/// equal-cost paths (IBTA A17.9.3).
fn source_port(flow_label: u32, source_qp: Qpn, peer: Qpn) -> u16 {
    // Fibonacci hashing: neighbouring QPNs end far apart in the top bits of the product.
    const GOLDEN: u32 = 0x9E37_79B1;
    let mixed = source_qp.value().wrapping_mul(GOLDEN).rotate_left(16) ^ peer.value() ^ flow_label << 12;
    0xC000 | (mixed.wrapping_mul(GOLDEN) >> 18) as u16
}
