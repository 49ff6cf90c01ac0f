//! Reliable connections without faults: every operation, size and MTU.

mod support;

use nic::verbs::*;
use support::*;
use wire::Immediate;

const MTUS: [Mtu; 5] = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096];

/// Sizes around the packet boundaries of an MTU.
fn sizes(mtu: Mtu) -> Vec<u32> {
    let mtu = mtu.bytes();
    vec![0, 1, 2, 3, 4, 5, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 3, 17 * mtu - 1, 300_001]
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

/// Where the other side's data goes.
const TARGET: u64 = 512 * 1024;

fn each_size(mut check: impl FnMut(&mut Pair, u32)) {
    for mtu in MTUS {
        for size in sizes(mtu) {
            let mut pair = Pair::new(Setup { mtu, ..Setup::default() });
            pair.bytes(0, 0, size as usize).copy_from_slice(&pattern(size as usize, 7));
            check(&mut pair, size);
            for side in 0..2 {
                assert_eq!(pair.state(side), QpState::Rts);
                let counters = pair.sides[side].nic.counters();
                assert_eq!((counters.retransmitted, counters.ack_timeout), (0, 0), "a clean link");
            }
        }
    }
}

#[test]
fn sends_arrive_whole() {
    each_size(|pair, size| {
        let (source, target) = (pair.sge(0, 0, size), pair.sge(1, TARGET, size));
        pair.recv(1, 20, &[target]);
        pair.send(0, 10, SendOperation::Send, &[source]);
        pair.drive();
        assert_eq!(pair.sent(0), [(10, Status::Success)]);
        let completion = pair.poll_recv(1).unwrap();
        assert_eq!((completion.wr_id, completion.status), (20, Status::Success));
        assert_eq!((completion.opcode, completion.byte_length), (CompletionOpcode::Recv, size));
        assert_eq!(pair.poll_recv(1), None);
        assert_eq!(*pair.bytes(1, TARGET, size as usize), pattern(size as usize, 7));
    });
}

#[test]
fn writes_arrive_whole_and_use_no_receive() {
    each_size(|pair, size| {
        let (source, remote) = (pair.sge(0, 0, size), pair.remote(0, TARGET));
        pair.send(0, 10, SendOperation::Write(remote), &[source]);
        pair.drive();
        assert_eq!(pair.sent(0), [(10, Status::Success)]);
        assert_eq!(pair.received(1), []);
        assert_eq!(*pair.bytes(1, TARGET, size as usize), pattern(size as usize, 7));
    });
}

#[test]
fn writes_with_immediate_tell_the_other_side() {
    each_size(|pair, size| {
        let (source, remote) = (pair.sge(0, 0, size), pair.remote(0, TARGET));
        pair.recv(1, 20, &[]);
        pair.send(0, 10, SendOperation::WriteWithImmediate(remote, 0xABCD), &[source]);
        pair.drive();
        assert_eq!(pair.sent(0), [(10, Status::Success)]);
        let completion = pair.poll_recv(1).unwrap();
        assert_eq!((completion.wr_id, completion.status), (20, Status::Success));
        assert_eq!(completion.opcode, CompletionOpcode::RecvWriteWithImmediate);
        assert_eq!((completion.byte_length, completion.immediate), (size, Immediate::Data(0xABCD)));
        assert_eq!(*pair.bytes(1, TARGET, size as usize), pattern(size as usize, 7));
    });
}

#[test]
fn reads_fetch_everything() {
    each_size(|pair, size| {
        let (target, remote) = (pair.sge(1, TARGET, size), pair.remote(1, 0));
        pair.send(1, 10, SendOperation::Read(remote), &[target]);
        pair.drive();
        let completion = pair.poll_send(1).unwrap();
        assert_eq!((completion.wr_id, completion.status), (10, Status::Success));
        assert_eq!((completion.opcode, completion.byte_length), (CompletionOpcode::Read, size));
        assert_eq!(*pair.bytes(1, TARGET, size as usize), pattern(size as usize, 7));
    });
}

#[test]
fn atomics_return_what_was_there() {
    let mut pair = Pair::default();
    pair.bytes(1, 64, 8).copy_from_slice(&40_u64.to_ne_bytes());
    let remote = pair.remote(0, 64);
    let results = [pair.sge(0, 0, 8), pair.sge(0, 8, 8), pair.sge(0, 16, 8)];
    pair.send(0, 1, SendOperation::FetchAdd { remote, add: 2 }, &results[..1]);
    pair.send(0, 2, SendOperation::CompareSwap { remote, compare: 42, swap: 7 }, &results[1..2]);
    pair.send(0, 3, SendOperation::CompareSwap { remote, compare: 42, swap: 8 }, &results[2..]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success), (3, Status::Success)]);
    let words: Vec<u64> =
        pair.bytes(0, 0, 24).chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [40, 42, 7]);
    assert_eq!(*pair.bytes(1, 64, 8), 7_u64.to_ne_bytes());
}

#[test]
fn inline_data_may_take_several_packets_and_be_sent_again() {
    let capabilities = QpCapabilities { max_inline_data: 1000, ..Setup::default().capabilities };
    let mut pair = Pair::new(Setup { mtu: Mtu::Mtu256, run: 3, capabilities, ..Setup::default() });
    let mut sent = 0;
    pair.link.drop = Some(Box::new(move |_, _| {
        sent += 1;
        sent == 3
    }));
    let (bytes, remote) = (pattern(1000, 3), pair.remote(0, TARGET));
    let data = SendData::Inline(&[&bytes[..300], &bytes[300..]]);
    pair.post_send(0, &SendRequest { data, ..request(1, SendOperation::Write(remote), &[]) }).unwrap();
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(*pair.bytes(1, TARGET, 1000), bytes);
    assert_eq!(pair.sides[0].nic.counters().retransmitted, 2);
}
