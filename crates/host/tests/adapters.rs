//! Two adapters of one process, talking over the loopback interface like two programs would.

#![allow(clippy::unwrap_used)]

mod common;

use common::connected;
use host::{Adapter, Config, Device};
use nic::verbs::*;

#[test]
fn a_write_lands_and_completes() {
    let (a, b) = connected(QpType::Rc);
    a.fill(0x5A);
    a.send(SendOperation::Write(b.remote(0)), 0, 100_000);
    let done = a.wait();
    assert_eq!((done.status, done.opcode), (Status::Success, CompletionOpcode::Write));
    assert_eq!(b.bytes(0, 100_000), vec![0x5A; 100_000]);
    assert_eq!(b.bytes(100_000, 1), [0]);
    assert_eq!(a.adapter.counters().retransmitted, 0);
}

#[test]
fn a_send_meets_its_receive() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let (a, b) = connected(qp_type);
        a.fill(7);
        b.post_recv(0, 5000);
        a.send(SendOperation::SendWithImmediate(0xABCD), 0, 4321);
        let received = b.wait();
        assert_eq!((received.status, received.byte_length), (Status::Success, 4321), "{qp_type:?}");
        assert_eq!(received.immediate, wire::Immediate::Data(0xABCD));
        assert_eq!(b.bytes(0, 4322), [vec![7; 4321], vec![0]].concat());
        assert_eq!(a.wait().status, Status::Success);
    }
}

#[test]
fn reads_and_atomics_return_what_was_there() {
    let (a, b) = connected(QpType::Rc);
    b.fill(3);
    a.send(SendOperation::Read(b.remote(8)), 0, 70_000);
    assert_eq!(a.wait().status, Status::Success);
    assert_eq!(a.bytes(0, 70_001), [vec![3; 70_000], vec![0]].concat());

    b.store(0, 41);
    a.send(SendOperation::FetchAdd { remote: b.remote(0), add: 1 }, 0, 8);
    assert_eq!(a.wait().status, Status::Success);
    assert_eq!((a.load(0), b.load(0)), (41, 42));
    a.send(SendOperation::CompareSwap { remote: b.remote(0), compare: 42, swap: 99 }, 0, 8);
    assert_eq!(a.wait().status, Status::Success);
    assert_eq!((a.load(0), b.load(0)), (42, 99));
}

#[test]
fn one_sided_operations_progress_while_the_target_sleeps() {
    // TRAPS 27: nothing is called on `b` after it is connected.
    let (a, b) = connected(QpType::Rc);
    for round in 0..50_u8 {
        a.fill(round);
        a.send(SendOperation::Write(b.remote(0)), 0, 64);
        assert_eq!(a.wait().status, Status::Success);
        assert_eq!(b.bytes(0, 64), [round; 64]);
    }
}

#[test]
fn a_channel_wakes_the_sleeper() {
    let (a, b) = connected(QpType::Rc);
    b.post_recv(0, 64);
    b.adapter.req_notify_cq(b.cq, false).unwrap();
    let channel = b.channel.clone();
    let sleeper = std::thread::spawn(move || channel.pop().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert!(!sleeper.is_finished());
    a.send(SendOperation::Send, 0, 64);
    let news = sleeper.join().unwrap();
    assert_eq!((news.cq, news.cookie), (b.cq, 77));
    assert_eq!(b.wait().status, Status::Success);
}

#[test]
fn a_peer_that_is_gone_ends_in_retry_exceeded() {
    let (a, b) = connected(QpType::Rc);
    let remote = b.remote(0);
    drop(b);
    a.set_patience(8, 3);
    a.send(SendOperation::Write(remote), 0, 64);
    assert_eq!(a.wait().status, Status::RetryExceeded);
    assert_eq!(a.adapter.query_qp(a.qpn).unwrap().state, QpState::Error);
}

#[test]
fn the_wrong_key_is_refused_by_the_responder() {
    let (a, b) = connected(QpType::Rc);
    let wrong = Remote { rkey: b.remote(0).rkey ^ 1, ..b.remote(0) };
    a.send(SendOperation::Write(wrong), 0, 64);
    assert_eq!(a.wait().status, Status::RemoteAccessError);
    assert_eq!(b.bytes(0, 64), [0; 64]);
}

#[test]
fn datagrams_carry_forty_bytes_in_front() {
    let (a, b) = connected(QpType::Ud);
    a.fill(9);
    b.post_recv(0, 40 + 1024);
    a.send_datagram(&b, 0, 1000);
    let received = b.wait();
    assert_eq!((received.status, received.byte_length), (Status::Success, 1040));
    assert!(received.has_grh);
    assert_eq!(received.source_qp, a.qpn);
    assert_eq!(b.bytes(40, 1001), [vec![9; 1000], vec![0]].concat());
}

#[test]
fn two_programs_worth_of_adapters_have_different_numbers() {
    common::service();
    let open = || -> Adapter { Device::new(Config::default()).open().unwrap() };
    let adapters: Vec<Adapter> = (0..20).map(|_| open()).collect();
    let mut numbers: Vec<u32> = adapters
        .iter()
        .map(|adapter| {
            let pd = adapter.alloc_pd().unwrap();
            let (cq, _) = adapter.create_cq(1, None).unwrap();
            common::create_qp(adapter, pd, cq, QpType::Rc).value()
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup_by_key(|number| *number % 256);
    assert_eq!(numbers.len(), 20);
}

#[test]
fn a_send_queue_tells_its_room() {
    let (a, b) = connected(QpType::Rc);
    let room = |side: &common::Side| side.adapter.post(|poster| poster.send_room(side.qpn)).unwrap();
    let all = room(&a);
    let remote = b.remote(0);
    drop(b);
    a.send(SendOperation::Write(remote), 0, 64);
    a.send(SendOperation::Write(remote), 0, 64);
    assert_eq!(room(&a), all - 2);
    a.adapter.modify_qp(a.qpn, &QpChange { state: Some(QpState::Error), ..QpChange::default() }).unwrap();
    assert_eq!(room(&a), all);
}

#[test]
fn the_port_follows_the_addresses_of_the_machine() {
    let (a, _b) = connected(QpType::Rc);
    assert_eq!(a.adapter.port(), (PortState::Active, Mtu::Mtu4096));
    let link = |state| {
        let done = std::process::Command::new("ip").args(["link", "set", "lo", state]).status().unwrap();
        assert!(done.success(), "this needs a network namespace of its own, hence privileges");
    };
    let news = || a.adapter.async_events().pop().unwrap();
    link("down");
    assert_eq!(
        std::iter::repeat_with(news).find(|event| *event != AsyncEvent::GidChange),
        Some(AsyncEvent::PortError)
    );
    assert_eq!((a.adapter.port().0, a.adapter.gid(a.gid_index)), (PortState::Down, None));
    link("up");
    assert_eq!(
        std::iter::repeat_with(news).find(|event| *event != AsyncEvent::GidChange),
        Some(AsyncEvent::PortActive)
    );
    assert!(a.adapter.gid(0).is_some());
}

#[test]
fn an_answer_that_waits_for_company_is_sent_before_its_queue_pair_ends() {
    for ending in [QpState::Reset, QpState::Error] {
        let (a, b) = connected(QpType::Rc);
        b.post_recv(0, 64);
        a.send(SendOperation::Send, 0, 64);
        assert_eq!(b.wait().status, Status::Success);
        b.adapter.modify_qp(b.qpn, &QpChange { state: Some(ending), ..QpChange::default() }).unwrap();
        assert_eq!(a.wait().status, Status::Success);
    }
    let (a, b) = connected(QpType::Rc);
    b.post_recv(0, 64);
    a.send(SendOperation::Send, 0, 64);
    assert_eq!(b.wait().status, Status::Success);
    drop(b);
    assert_eq!(a.wait().status, Status::Success);
}
