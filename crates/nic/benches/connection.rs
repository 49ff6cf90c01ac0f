//! What a packet costs two adapters that carry no payload, as in a simulation: one sends it, the other
//! takes it, acknowledgements included.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on panics")]

use std::net::Ipv4Addr;

use divan::Bencher;
use divan::counter::ItemsCount;
use nic::memory::PhantomMemory;
use nic::verbs::*;
use nic::{Arrival, Config, Instant, Nic, Payload};
use wire::{Gid, Psn, Qpn};

fn main() {
    divan::main();
}

const MIB: u32 = 1 << 20;
const MTU: Mtu = Mtu::Mtu1024;

struct Side {
    nic: Nic<PhantomMemory>,
    pd: Pd,
    cq: Cq,
    key: u32,
    gid: Gid,
    qpns: Vec<Qpn>,
}

/// Two adapters with connections between them.
struct Pair {
    sides: [Side; 2],
    now: Instant,
    run: usize,
}

impl Side {
    fn new(number: u8) -> Self {
        let config = Config { seed: u64::from(number), ..Config::default() };
        let mut nic = Nic::new(config, PhantomMemory);
        let gid = Gid::from(Ipv4Addr::new(10, 0, 0, number));
        nic.set_gid(0, Some(GidEntry { gid, gid_type: GidType::RoceV2, interface_index: 1 }));
        nic.set_port(PortState::Active, Mtu::Mtu4096);
        let pd = nic.alloc_pd().unwrap();
        let (cq, _) = nic.create_cq(1 << 20).unwrap();
        let access = Access { local_write: true, remote_write: true, remote_read: true, ..Access::default() };
        let key = nic.reg_mr(pd, 0, 1 << 40, 0, access).unwrap().lkey;
        Self { nic, pd, cq, key, gid, qpns: Vec::new() }
    }

    fn create_qp(&mut self) {
        let init = QpInit {
            pd: self.pd,
            qp_type: QpType::Rc,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            capabilities: QpCapabilities {
                max_send_wr: 1024,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 64,
            },
            signal_all: true,
        };
        self.qpns.push(self.nic.create_qp(&init).unwrap().0);
    }

    fn connect(&mut self, number: usize, peer: Gid, dest_qp: Qpn) {
        let path = AddressVector { destination: peer, is_global: true, port: 1, ..AddressVector::default() };
        let access = Access { remote_write: true, remote_read: true, ..Access::default() };
        let to = |state| QpChange { state: Some(state), ..QpChange::default() };
        let changes = [
            QpChange { pkey_index: Some(0), port: Some(1), access: Some(access), ..to(QpState::Init) },
            QpChange {
                path: Some(path),
                path_mtu: Some(MTU),
                dest_qp: Some(dest_qp),
                rq_psn: Some(Psn::ZERO),
                max_dest_rd_atomic: Some(16),
                min_rnr_timer: Some(12),
                ..to(QpState::Rtr)
            },
            QpChange {
                sq_psn: Some(Psn::ZERO),
                timeout: Some(14),
                retry_count: Some(7),
                rnr_retry: Some(7),
                max_rd_atomic: Some(16),
                ..to(QpState::Rts)
            },
        ];
        for change in &changes {
            self.nic.modify_qp(Instant::ZERO, self.qpns[number], change).unwrap();
        }
    }
}

impl Pair {
    fn new(connections: usize, run: usize) -> Self {
        let mut sides = [Side::new(1), Side::new(2)];
        for number in 0..connections {
            sides.iter_mut().for_each(Side::create_qp);
            let peers = [1, 0].map(|peer: usize| (sides[peer].gid, sides[peer].qpns[number]));
            for (side, (gid, qpn)) in sides.iter_mut().zip(peers) {
                side.connect(number, gid, qpn);
            }
        }
        Self { sides, now: Instant::ZERO, run }
    }

    /// Posts requests on every connection and brings all of them to an end; returns the packets sent.
    fn carry_out(&mut self, request: &SendRequest<'_>, each: usize) -> u64 {
        let before = self.packets();
        let Side { nic, qpns, .. } = &mut self.sides[0];
        for &qpn in qpns.iter() {
            for _ in 0..each {
                nic.post_send(self.now, qpn, request).unwrap();
            }
        }
        while self.exchange() {}
        let cq = self.sides[0].cq;
        let nic = &mut self.sides[0].nic;
        let done = std::iter::from_fn(|| nic.poll_cq(cq).unwrap()).filter(|c| c.status == Status::Success);
        assert_eq!(done.count(), each * self.sides[0].qpns.len());
        self.packets() - before
    }

    /// Lets each side send what it can. False if neither has anything.
    fn exchange(&mut self) -> bool {
        let mut any = false;
        for from in 0..2 {
            let [first, second] = &mut self.sides;
            let (sender, receiver) = if from == 0 { (first, second) } else { (second, first) };
            let (source, destination) = (sender.gid, receiver.gid);
            let arrival = Arrival { source, destination, traffic_class: 0, hop_limit: 64 };
            while let Some(transmit) = sender.nic.poll_transmit(self.now, self.run) {
                any = true;
                for index in 0..transmit.packets() {
                    let headers = transmit.headers(index);
                    let length = transmit.payload_range(index).len() + usize::from(headers.bth.pad_count);
                    receiver.nic.handle_packet(self.now, &arrival, &headers, Payload::Phantom(length));
                }
            }
        }
        any
    }

    fn packets(&self) -> u64 {
        self.sides.iter().map(|side| side.nic.counters().sent_packets).sum()
    }
}

/// Carries out `each` requests of `length` bytes on every connection, again and again.
fn measure(
    bencher: Bencher<'_, '_>,
    mut pair: Pair,
    operation: fn(Remote) -> SendOperation,
    length: u32,
    each: usize,
) {
    let sges = [Sge { address: 0, length, lkey: pair.sides[0].key }];
    let request = SendRequest {
        wr_id: 1,
        operation: operation(Remote { address: 0, rkey: pair.sides[1].key }),
        data: SendData::Gather(&sges),
        flags: SendFlags::default(),
        destination: None,
    };
    let packets = pair.carry_out(&request, each);
    bencher.counter(ItemsCount::new(packets)).bench_local(|| pair.carry_out(&request, each));
}

#[divan::bench(args = [1, 16, 64])]
fn write_1_mib(bencher: Bencher<'_, '_>, run: usize) {
    measure(bencher, Pair::new(1, run), SendOperation::Write, MIB, 1);
}

#[divan::bench(args = [1, 16, 64])]
fn read_1_mib(bencher: Bencher<'_, '_>, run: usize) {
    measure(bencher, Pair::new(1, run), SendOperation::Read, MIB, 1);
}

#[divan::bench]
fn write_64_bytes(bencher: Bencher<'_, '_>) {
    measure(bencher, Pair::new(1, 16), SendOperation::Write, 64, 1000);
}

/// Many connections at once, a packet at a time.
#[divan::bench(args = [10, 1000])]
fn write_16_kib_on_connections(bencher: Bencher<'_, '_>, connections: usize) {
    measure(bencher, Pair::new(connections, 1), SendOperation::Write, 16 << 10, 1);
}
