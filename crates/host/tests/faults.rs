//! Every kind of operation over a bad wire, on real sockets: the right bytes in the right places, each
//! completion exactly once, in order.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Side, connected_with};
use host::Config;
use nic::verbs::*;

const OPERATIONS: u64 = 1_000;

/// Bytes moved by one operation: from one packet to several.
fn length(index: u64) -> usize {
    1 + (index as usize * 7919) % 20_000
}

fn run(plan: &str) -> nic::Counters {
    let faults = (!plan.is_empty()).then(|| plan.parse().unwrap());
    let config = Config { faults, ..Config::default() };
    let (a, b) = connected_with(config, QpType::Rc);
    for index in 0..OPERATIONS {
        let (byte, length) = ((index % 251) as u8 + 1, length(index));
        match index % 4 {
            0 => {
                a.fill(byte);
                a.send(SendOperation::Write(b.remote(0)), 0, length);
                finish(&a, &[CompletionOpcode::Write]);
                check(&b, byte, length, index);
            }
            1 => {
                a.fill(byte);
                b.post_recv(0, length);
                a.send(SendOperation::Send, 0, length);
                finish(&a, &[CompletionOpcode::Send]);
                let received = b.wait();
                assert_eq!((received.status, received.byte_length as usize), (Status::Success, length));
                check(&b, byte, length, index);
            }
            2 => {
                b.fill(byte);
                a.send(SendOperation::Read(b.remote(0)), 0, length);
                finish(&a, &[CompletionOpcode::Read]);
                check(&a, byte, length, index);
            }
            _ => {
                b.store(0, index);
                a.send(SendOperation::FetchAdd { remote: b.remote(0), add: 5 }, 0, 8);
                a.send(SendOperation::FetchAdd { remote: b.remote(0), add: 7 }, 8, 8);
                finish(&a, &[CompletionOpcode::FetchAdd; 2]);
                assert_eq!(
                    (a.load(0), a.load(8), b.load(0)),
                    (index, index + 5, index + 12),
                    "carried out once"
                );
            }
        }
    }
    assert_eq!(a.adapter.poll_cq(a.cq, 1, |_| ()).unwrap(), 0, "no completion twice");
    assert_eq!(b.adapter.poll_cq(b.cq, 1, |_| ()).unwrap(), 0, "no completion twice");
    a.adapter.counters()
}

fn finish(side: &Side, opcodes: &[CompletionOpcode]) {
    for &opcode in opcodes {
        let done = side.wait();
        assert_eq!((done.status, done.opcode), (Status::Success, opcode));
    }
}

fn check(side: &Side, byte: u8, length: usize, index: u64) {
    assert!(side.bytes(0, length).iter().all(|&found| found == byte), "operation {index}");
}

#[test]
fn nothing_is_sent_again_on_a_good_wire() {
    assert_eq!(run("").retransmitted, 0);
}

#[test]
fn loss_is_made_good() {
    for plan in ["loss=1%,seed=2", "loss=5%,seed=3", "loss=10%,seed=4"] {
        assert!(run(plan).retransmitted > 0, "{plan}");
    }
}

#[test]
fn reordering_duplication_and_corruption_are_made_good() {
    for plan in ["reorder=5%,seed=5", "duplicate=5%,seed=6", "corrupt=5%,seed=7"] {
        run(plan);
    }
    run("loss=2%,reorder=2%,duplicate=2%,corrupt=2%,seed=8");
}
