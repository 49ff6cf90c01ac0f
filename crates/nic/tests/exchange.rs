//! A small exchange, packet by packet, as it was when it was last looked at.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use nic::verbs::*;
use support::*;
use wire::{Operation, Psn};

const TARGET: u64 = 512 * 1024;

/// One of every operation, then a lost packet, a receiver that is not ready, and a refusal.
fn exchange() -> String {
    let mut pair = Pair::new(Setup { psns: [Psn::new(0xFF_FFFC), Psn::new(0x100)], ..Setup::default() });
    pair.link.trace = Some(Vec::new());
    let (remote, long, word) = (pair.remote(0, TARGET), pair.sge(0, 0, 2500), pair.sge(0, 4096, 8));
    let mut steps = Vec::new();
    let mut step = |pair: &mut Pair, title: &str| {
        pair.drive();
        let lines = pair.link.trace.replace(Vec::new()).unwrap();
        let told = [pair.sent(0), pair.received(1)].concat();
        let told = told.iter().map(|(wr_id, status)| format!("   {wr_id}: {status:?}"));
        steps.push([title.to_owned()].into_iter().chain(lines).chain(told).collect::<Vec<_>>().join("\n"));
    };

    pair.recv(1, 100, &[pair.sge(1, TARGET, 4096)]);
    pair.send(0, 1, SendOperation::Send, &[long]);
    step(&mut pair, "SEND");
    pair.recv(1, 101, &[]);
    pair.send(0, 2, SendOperation::WriteWithImmediate(remote, 0xCAFE), &[long]);
    step(&mut pair, "RDMA WRITE with immediate");
    pair.send(0, 3, SendOperation::Read(remote), &[long]);
    step(&mut pair, "RDMA READ");
    pair.send(0, 4, SendOperation::FetchAdd { remote, add: 1 }, &[word]);
    pair.send(0, 5, SendOperation::CompareSwap { remote, compare: 0, swap: 2 }, &[word]);
    step(&mut pair, "atomics");
    for wr_id in 6..10 {
        pair.send(0, wr_id, SendOperation::Write(remote), &[word]);
    }
    step(&mut pair, "several at once, one acknowledgement");

    let mut lost = false;
    pair.link.drop = Some(Box::new(move |_, headers| {
        let is_middle = headers.bth.opcode.operation == Operation::WriteMiddle;
        is_middle && !core::mem::replace(&mut lost, true)
    }));
    pair.send(0, 10, SendOperation::Write(remote), &[long]);
    step(&mut pair, "a packet lost in the middle");
    pair.send(0, 11, SendOperation::Send, &[word]);
    pair.send(0, 12, SendOperation::Write(remote), &[word]);
    pair.drive_for(nic::Duration::from_micros(9));
    pair.recv(1, 102, &[pair.sge(1, TARGET, 8)]);
    step(&mut pair, "a receiver that is not ready");
    pair.send(0, 13, SendOperation::Write(Remote { rkey: 0, ..remote }), &[long]);
    step(&mut pair, "a refusal");
    steps.join("\n\n") + "\n"
}

#[test]
fn the_packets_of_a_small_exchange() {
    let expected = include_str!("golden/exchange.txt");
    let actual = exchange();
    assert!(actual == expected, "the exchange has changed; if that is right, replace the file by\n{actual}");
}
