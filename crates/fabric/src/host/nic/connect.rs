//! From a flow to a connection, out of band as programs do it: both ends know everything.

use std::net::Ipv4Addr;

use nic::verbs::{
    Access, AddressVector, Cq, GidEntry, GidType, Pd, QpCapabilities, QpChange, QpInit, QpState, QpType,
    Remote, SendData, SendFlags, SendOperation, SendRequest, Sge,
};
use nic::{Instant, Nic};
use wire::{Gid, Psn, Qpn};

use super::NicHost;
use super::memory::FlowMemory;
use crate::flow::{FlowId, FlowSpec};
use crate::topology::HostId;

/// What every queue pair of an adapter belongs to.
pub(super) struct Parts {
    pub pd: Pd,
    pub cq: Cq,
    pub key: u32,
}

/// Why a simulated adapter can refuse nothing that is done here: its limits are above those of flows.
const GRANTED: &str = "an adapter of our own making grants what it is asked for";

/// Flows longer than this are several messages.
const MESSAGE: u64 = 1 << 30;

/// Makes what queue pairs belong to, and gives the adapter its address.
pub(super) fn parts(nic: &mut Nic<FlowMemory>, id: HostId) -> Parts {
    nic.set_gid(0, Some(GidEntry { gid: gid(id), gid_type: GidType::RoceV2, interface_index: 1 }));
    let pd = nic.alloc_pd().expect(GRANTED);
    let (cq, _) = nic.create_cq(1 << 16).expect(GRANTED);
    let access = Access { local_write: true, remote_write: true, ..Access::default() };
    let region = nic.reg_mr(pd, 0, FlowMemory::LENGTH, 0, access).expect(GRANTED);
    debug_assert_eq!(region.lkey, region.rkey, "one key names a region on both sides");
    Parts { pd, cq, key: region.lkey }
}

/// Connects two hosts for a flow, and begins it. Returns the queue pairs.
pub(crate) fn connect(
    source: &mut NicHost,
    destination: &mut NicHost,
    id: FlowId,
    flow: &FlowSpec,
    now: Instant,
) -> [Qpn; 2] {
    let messages = flow.bytes.div_ceil(MESSAGE).max(1);
    let qpns = [source.create_qp(messages as u32), destination.create_qp(1)];
    source.enter_rts(qpns[0], destination.id, qpns[1], flow, now);
    destination.enter_rts(qpns[1], source.id, qpns[0], flow, now);
    source.flows.insert(qpns[0], id);
    destination.flows.insert(qpns[1], id);
    source.post(qpns[0], id, flow, destination.key, now);
    qpns
}

impl NicHost {
    fn create_qp(&mut self, messages: u32) -> Qpn {
        let capabilities = QpCapabilities {
            max_send_wr: messages,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let init = QpInit {
            pd: self.pd,
            qp_type: QpType::Rc,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            capabilities,
            signal_all: false,
        };
        self.nic.create_qp(&init).expect(GRANTED).0
    }

    fn enter_rts(&mut self, qpn: Qpn, peer: HostId, peer_qpn: Qpn, flow: &FlowSpec, now: Instant) {
        let path = AddressVector {
            destination: gid(peer),
            traffic_class: flow.class.byte(),
            is_global: true,
            port: 1,
            ..AddressVector::default()
        };
        let access = Access { remote_write: true, ..Access::default() };
        let to = |state| QpChange { state: Some(state), ..QpChange::default() };
        let changes = [
            QpChange { pkey_index: Some(0), port: Some(1), access: Some(access), ..to(QpState::Init) },
            QpChange {
                path: Some(path),
                path_mtu: Some(self.config.mtu),
                dest_qp: Some(peer_qpn),
                rq_psn: Some(Psn::ZERO),
                max_dest_rd_atomic: Some(1),
                min_rnr_timer: Some(12),
                ..to(QpState::Rtr)
            },
            QpChange {
                sq_psn: Some(Psn::ZERO),
                timeout: Some(self.config.timeout),
                retry_count: Some(self.config.retry_count),
                rnr_retry: Some(7),
                max_rd_atomic: Some(1),
                ..to(QpState::Rts)
            },
        ];
        for change in &changes {
            self.nic.modify_qp(now, qpn, change).expect(GRANTED);
        }
    }

    /// Posts the messages of a flow.
    fn post(&mut self, qpn: Qpn, id: FlowId, flow: &FlowSpec, rkey: u32, now: Instant) {
        let address = FlowMemory::address(id);
        let mut rest = flow.bytes;
        loop {
            let length = rest.min(MESSAGE);
            rest -= length;
            let element = Sge { address, length: length as u32, lkey: self.key };
            let request = SendRequest {
                wr_id: id.0.into(),
                operation: SendOperation::Write(Remote { address, rkey }),
                data: SendData::Gather(&[element]),
                flags: SendFlags { signaled: rest == 0, ..SendFlags::default() },
                destination: None,
            };
            self.nic.post_send(now, qpn, &request).expect(GRANTED);
            if rest == 0 {
                self.has_news = true;
                return;
            }
        }
    }
}

/// The first address of hosts: 10.0.0.1.
const FIRST: u32 = 0x0A00_0001;

/// The address of a host.
pub(super) fn gid(host: HostId) -> Gid {
    Gid::from(Ipv4Addr::from(FIRST + host.0))
}

/// The host of an address.
pub(super) fn host(gid: Gid) -> HostId {
    let [.., a, b, c, d] = gid.0;
    HostId(u32::from_be_bytes([a, b, c, d]).wrapping_sub(FIRST))
}
