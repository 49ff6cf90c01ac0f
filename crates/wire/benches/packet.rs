//! What a packet costs: its headers, and its ICRC.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use wire::{Bth, Extended, Headers, Icrc, Ipv4, Opcode, Operation, Packet, Psn, Qpn, Reth, Service, Udp};

fn main() {
    divan::main();
}

fn write_only() -> Headers {
    Headers {
        bth: Bth {
            opcode: Opcode::new(Service::Rc, Operation::WriteOnly),
            dest_qp: Qpn::new(0x11),
            psn: Psn::new(0x123456),
            ..Bth::default()
        },
        extended: Extended::Reth(Reth { va: 0x7F00_0000_0000, rkey: 0x1234, length: 4096 }),
        ..Headers::default()
    }
}

fn write_middle() -> Headers {
    Headers {
        bth: Bth { opcode: Opcode::new(Service::Rc, Operation::WriteMiddle), ..write_only().bth },
        ..Headers::default()
    }
}

#[divan::bench(args = ["middle", "only"])]
fn headers_emit(bencher: Bencher<'_, '_>, which: &str) {
    let headers = if which == "only" { write_only() } else { write_middle() };
    let mut out = [0; Headers::MAX_LEN];
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| black_box(&headers).emit(black_box(&mut out)));
}

#[divan::bench(args = ["middle", "only"])]
fn headers_parse(bencher: Bencher<'_, '_>, which: &str) {
    let headers = if which == "only" { write_only() } else { write_middle() };
    let mut bytes = [0; Headers::MAX_LEN];
    headers.emit(&mut bytes);
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| Headers::parse(black_box(&bytes)));
}

#[divan::bench(args = [64, 1024, 4096])]
fn packet_parse_and_verify(bencher: Bencher<'_, '_>, payload_len: usize) {
    let payload = vec![7; payload_len];
    let mut packet = Packet::new(write_middle(), &payload);
    let path = path(packet.len());
    packet.icrc = packet.right_icrc(path);
    let mut bytes = vec![0; packet.len()];
    packet.emit(&mut bytes);
    bencher.counter(BytesCount::new(payload_len)).bench_local(|| {
        let bytes = black_box(&bytes);
        assert!(path.verify(bytes));
        Packet::parse(bytes).is_ok()
    });
}

#[divan::bench]
fn icrc_path(bencher: Bencher<'_, '_>) {
    let udp = Udp::default().sealed(4096);
    let ip = Ipv4::default().sealed(4104);
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| Icrc::for_ipv4(black_box(&ip), black_box(&udp)));
}

#[divan::bench(args = [0, 64, 256, 1024, 4096])]
fn icrc_payload(bencher: Bencher<'_, '_>, payload_len: usize) {
    let payload = vec![7; payload_len];
    let mut headers = [0; Headers::MAX_LEN];
    let len = write_middle().emit(&mut headers);
    let path = path(len + payload_len + Icrc::LEN);
    bencher.counter(BytesCount::new(payload_len)).bench_local(|| {
        black_box(path).transport(black_box(&headers[..len])).update(black_box(&payload)).finish()
    });
}

fn path(datagram_len: usize) -> Icrc {
    let udp = Udp::default().sealed(datagram_len);
    Icrc::for_ipv4(&Ipv4::default().sealed(udp.len.into()), &udp)
}
