//! Reliable connections over a link that loses, duplicates and reorders: everything is done once, in
//! order, on the right bytes.

mod support;

use nic::Config;
use nic::verbs::Mtu;
use support::{Faults, Setup, traffic};
use wire::Psn;

const MTUS: [Mtu; 5] = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096];

/// Runs with different seeds, MTUs, windows and limits, `operations` on each side each.
fn sweep(faults: Faults, operations: u64) {
    for (seed, mtu) in (1..).zip(MTUS) {
        for (window, rd_atomic, run) in [(1 << 18, 4, 16), (8 << 10, 1, 1), (1 << 30, 16, 64)] {
            let setup = Setup {
                config: Config { window, ..Config::default() },
                psns: [Psn::new(0xFF_FF00), Psn::new(0x7F_FFF0)],
                timeout: 6,
                mtu,
                rd_atomic,
                run,
                faults,
                seed,
                ..Setup::default()
            };
            traffic::run(setup, operations);
        }
    }
}

#[test]
fn a_clean_link_sees_no_retransmission() {
    for mtu in MTUS {
        let setup = Setup { mtu, timeout: 6, ..Setup::default() };
        let pair = traffic::run(setup, 5_000);
        for side in &pair.sides {
            let counters = side.nic.counters();
            assert_eq!((counters.ack_timeout, counters.packet_seq_err), (0, 0));
            assert_eq!(
                (counters.retransmitted, counters.duplicate_request, counters.out_of_sequence),
                (0, 0, 0)
            );
        }
    }
}

#[test]
fn receivers_that_are_not_ready() {
    sweep(Faults { late_receive: 500, ..Faults::default() }, 2_000);
}

#[test]
fn one_percent_loss() {
    sweep(Faults { loss: 10, ..Faults::default() }, 2_000);
}

#[test]
fn five_percent_loss() {
    sweep(Faults { loss: 50, ..Faults::default() }, 2_000);
}

#[test]
fn ten_percent_loss() {
    sweep(Faults { loss: 100, ..Faults::default() }, 2_000);
}

#[test]
fn reordering() {
    sweep(Faults { reorder: 50, ..Faults::default() }, 2_000);
}

#[test]
fn duplication() {
    sweep(Faults { duplicate: 50, ..Faults::default() }, 2_000);
}

#[test]
fn everything_at_once() {
    sweep(Faults { loss: 30, duplicate: 30, reorder: 30, late_receive: 300 }, 2_000);
}

#[test]
fn equal_seeds_give_equal_traces() {
    let trace = |seed| {
        let faults = Faults { loss: 30, duplicate: 30, reorder: 30, late_receive: 300 };
        let setup = Setup { timeout: 6, faults, seed, trace: true, ..Setup::default() };
        traffic::run(setup, 300).link.trace
    };
    assert!(trace(1).is_some_and(|lines| lines.len() > 1000));
    assert!(trace(1) == trace(1));
    assert!(trace(1) != trace(2));
}

#[test]
#[ignore = "millions of operations take minutes"]
fn soak() {
    for faults in [
        Faults { loss: 10, ..Faults::default() },
        Faults { loss: 50, ..Faults::default() },
        Faults { loss: 100, ..Faults::default() },
        Faults { loss: 30, duplicate: 30, reorder: 30, late_receive: 300 },
    ] {
        sweep(faults, 25_000);
    }
}
