//! Memory windows: rights on a part of a region, given and taken back by work requests. End 1 gives, end 0 uses.

use nic::verbs::*;
use wire::Immediate;

use super::{
    Scenario,
    pair::{Pair, Setup, content},
    scenario,
    transfer::{SOURCE, TARGET},
};
use crate::arm::{Arm, Need, Refusal};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("window_type_2", type_2).needing(&[Need::Lossless]),
    scenario("window_invalidated_by_peer", invalidated_by_peer).needing(&[Need::Lossless]),
    scenario("window_of_another_queue_pair", of_another_queue_pair).needing(&[Need::Lossless]),
    scenario("window_type_1", type_1).needing(&[Need::Lossless]),
    scenario("window_rights", rights).needing(&[Need::Lossless]),
    scenario("window_zero_based", zero_based),
    scenario("window_bind_refused", bind_refused),
    scenario("window_keeps_region", keeps_region),
];

/// Bytes that windows cover.
const LENGTH: u64 = 4096;

const WRITE: Access = Access { remote_write: true, ..NO_RIGHTS };
const READ: Access = Access { remote_read: true, ..NO_RIGHTS };
const NO_RIGHTS: Access =
    Access { local_write: false, remote_write: false, remote_read: false, ..Access::LOCAL };

/// What a window of end 1 covers, from `offset` of its memory on.
fn binding(pair: &mut Pair<'_>, offset: u64, length: u64, access: Access) -> Binding {
    let lkey = pair.ends[1].mr.lkey;
    Binding { lkey, address: pair.side(1).address() + offset, length, access }
}

/// Posts the bind of a type 2 window under the key after `key`; returns that.
fn bind(pair: &mut Pair<'_>, window: Mw, key: u32, binding: Binding) -> u32 {
    let rkey = key & !0xFF | (key + 1) & 0xFF;
    pair.send(1, 50, SendOperation::BindWindow { window, rkey, binding }, &[]);
    rkey
}

/// Makes a type 2 window over [`LENGTH`] bytes at [`TARGET`] and binds it.
fn bound(pair: &mut Pair<'_>, access: Access) -> (Mw, u32) {
    let pd = pair.ends[1].pd;
    let (window, key) = pair.side(1).alloc_mw(pd, MwType::Type2).expect("a window");
    let binding = binding(pair, TARGET, LENGTH, access);
    let rkey = bind(pair, window, key, binding);
    let done = pair.sent(1);
    assert_eq!((done.wr_id, done.status, done.opcode), (50, Status::Success, CompletionOpcode::BindWindow));
    (window, rkey)
}

/// Writes eight bytes through a key; says how that ended, and checks that they are there if it went well, and that
/// nothing is if it did not.
fn write(pair: &mut Pair<'_>, rkey: u32, offset: u64) -> Status {
    let before = pair.load(1, offset, 8);
    let bytes = content(before.iter().map(|&byte| u64::from(byte)).sum::<u64>() + 1, 8);
    pair.store(0, SOURCE, &bytes);
    let (sge, address) = (pair.sge(0, SOURCE, 8), pair.side(1).address() + offset);
    pair.send(0, 60, SendOperation::Write(Remote { address, rkey }), &[sge]);
    let done = pair.sent(0);
    let expected = if done.is_success() { bytes } else { before };
    assert_eq!(pair.load(1, offset, 8), expected, "a write that ended with {:?}", done.status);
    done.status
}

/// Reads eight bytes through a key; says how that ended.
fn read(pair: &mut Pair<'_>, rkey: u32, offset: u64) -> Status {
    let (sge, address) = (pair.sge(0, SOURCE, 8), pair.side(1).address() + offset);
    pair.send(0, 61, SendOperation::Read(Remote { address, rkey }), &[sge]);
    pair.sent(0).status
}

fn free(pair: &mut Pair<'_>, window: Mw) {
    pair.side(1).dealloc_mw(window).expect("a window");
}

/// Bound, used, taken back, bound anew.
fn type_2(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let (window, key) = bound(&mut pair, WRITE);
    assert_eq!(write(&mut pair, key, TARGET), Status::Success);
    pair.send(1, 51, SendOperation::LocalInvalidate(key), &[]);
    let done = pair.sent(1);
    let expected = (51, Status::Success, CompletionOpcode::LocalInvalidate);
    assert_eq!((done.wr_id, done.status, done.opcode), expected);
    let again = binding(&mut pair, TARGET + LENGTH, 64, WRITE);
    let next = bind(&mut pair, window, key, again);
    assert_eq!(pair.all_sent(1, 1), [(50, Status::Success)]);
    assert_eq!(write(&mut pair, next, TARGET + LENGTH), Status::Success);
    assert_eq!(write(&mut pair, key, TARGET), Status::RemoteAccessError, "the key that was taken back");
    free(&mut pair, window);
    pair.close();
}

/// A SEND takes the key back, and the completion of the receive says which.
fn invalidated_by_peer(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let (window, key) = bound(&mut pair, WRITE);
    assert_eq!(write(&mut pair, key, TARGET), Status::Success);
    let scatter = pair.sge(1, TARGET + 8192, 64);
    pair.recv(1, 1, &[scatter]);
    let sge = pair.sge(0, SOURCE, 8);
    pair.send(0, 2, SendOperation::SendWithInvalidate(key), &[sge]);
    assert_eq!(pair.all_sent(0, 1), [(2, Status::Success)]);
    let received = pair.received(1);
    assert_eq!((received.status, received.byte_length), (Status::Success, 8));
    assert_eq!(received.immediate, Immediate::Invalidate(key));
    assert_eq!(write(&mut pair, key, TARGET), Status::RemoteAccessError);
    free(&mut pair, window);
    pair.close();
}

/// A type 2 window is for the peer of the queue pair that it was bound on.
fn of_another_queue_pair(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let (window, key) = bound(&mut pair, WRITE);
    pair.add_connection();
    assert_eq!(write(&mut pair, key, TARGET), Status::RemoteAccessError);
    free(&mut pair, window);
    pair.close();
}

/// A type 1 window is for all of the protection domain, moves from place to place, and has a new key each time.
fn type_1(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let (pd, qpn) = (pair.ends[1].pd, pair.ends[1].qpn);
    let (window, _) = pair.side(1).alloc_mw(pd, MwType::Type1).expect("a window");
    let mut keys = Vec::new();
    for offset in [TARGET, TARGET + LENGTH] {
        let binding = binding(&mut pair, offset, LENGTH, WRITE);
        keys.push(pair.side(1).bind_mw(qpn, 50, window, &binding).expect("a bind"));
        let done = pair.sent(1);
        let expected = (50, Status::Success, CompletionOpcode::BindWindow);
        assert_eq!((done.wr_id, done.status, done.opcode), expected);
    }
    assert_ne!(keys[0], keys[1]);
    pair.add_connection();
    assert_eq!(write(&mut pair, keys[1], TARGET + LENGTH), Status::Success, "over another connection");
    assert_eq!(write(&mut pair, keys[0], TARGET), Status::RemoteAccessError, "the old key");
    free(&mut pair, window);
    pair.close();
}

/// A window gives the rights that it was bound with, on the bytes that it was bound to.
fn rights(arm: &mut dyn Arm) {
    use Status::{RemoteAccessError as Refused, Success};
    type Use = fn(&mut Pair<'_>, u32, u64) -> Status;
    let uses: &[(Access, Use, u64, Status)] = &[
        (WRITE, write, TARGET, Success),
        (WRITE, read, TARGET, Refused),
        (READ, read, TARGET, Success),
        (READ, write, TARGET, Refused),
        (WRITE, write, TARGET + LENGTH - 8, Success),
        (WRITE, write, TARGET + LENGTH - 7, Refused),
        (WRITE, write, TARGET - 1, Refused),
        (READ, read, TARGET + LENGTH, Refused),
    ];
    for (number, &(access, action, offset, expected)) in uses.iter().enumerate() {
        let mut pair = Pair::new(arm, Setup::default());
        let (window, key) = bound(&mut pair, access);
        assert_eq!(action(&mut pair, key, offset), expected, "use {number}");
        free(&mut pair, window);
        pair.close();
    }
}

/// Addresses in a zero-based window count from its start.
fn zero_based(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let (window, rkey) = bound(&mut pair, Access { zero_based: true, ..WRITE });
    pair.store(0, SOURCE, &content(5, 8));
    let sge = pair.sge(0, SOURCE, 8);
    pair.send(0, 1, SendOperation::Write(Remote { address: 16, rkey }), &[sge]);
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    assert_eq!(pair.load(1, TARGET + 16, 8), content(5, 8));
    free(&mut pair, window);
    pair.close();
}

/// Binds that ask for what the region does not give: they complete with an error, and break the connection.
fn bind_refused(arm: &mut dyn Arm) {
    #[derive(Clone, Copy, Debug)]
    enum Wrong {
        BeyondRegion,
        NoBindRight,
        NoLength,
        BoundAlready,
    }
    for wrong in [Wrong::BeyondRegion, Wrong::NoBindRight, Wrong::NoLength, Wrong::BoundAlready] {
        let mut pair = Pair::new(arm, Setup::default());
        let pd = pair.ends[1].pd;
        let start = pair.side(1).address() + TARGET;
        let other = pair.side(1).reg_mr(pd, start, LENGTH, start, Access::ALL).expect("a region");
        let (window, key) = pair.side(1).alloc_mw(pd, MwType::Type2).expect("a window");
        let good = binding(&mut pair, TARGET, LENGTH, WRITE);
        let bad = match wrong {
            Wrong::BeyondRegion => Binding { length: crate::arm::MEMORY, ..good },
            Wrong::NoBindRight => Binding { lkey: other.lkey, ..good },
            Wrong::NoLength => Binding { length: 0, ..good },
            Wrong::BoundAlready => {
                bind(&mut pair, window, key, good);
                assert_eq!(pair.all_sent(1, 1), [(50, Status::Success)]);
                good
            }
        };
        bind(&mut pair, window, key + 1, bad);
        assert_eq!(pair.all_sent(1, 1), [(50, Status::MemoryWindowBindError)], "{wrong:?}");
        pair.await_state(1, QpState::Error);
        free(&mut pair, window);
        pair.side(1).dereg_mr(other.mr).expect("a region without windows");
        pair.close();
    }
}

/// A region stays as long as a window is bound to it.
fn keeps_region(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let pd = pair.ends[1].pd;
    let start = pair.side(1).address() + TARGET;
    let access = Access { window_bind: true, ..Access::ALL };
    let region = pair.side(1).reg_mr(pd, start, LENGTH, start, access).expect("a region");
    let (window, key) = pair.side(1).alloc_mw(pd, MwType::Type2).expect("a window");
    let binding = Binding { lkey: region.lkey, address: start, length: LENGTH, access: WRITE };
    let rkey = bind(&mut pair, window, key, binding);
    assert_eq!(pair.all_sent(1, 1), [(50, Status::Success)]);
    assert_eq!(pair.side(1).dereg_mr(region.mr), Err(Refusal::Invalid));
    assert_eq!(write(&mut pair, rkey, TARGET), Status::Success, "it is still there");
    free(&mut pair, window);
    assert_eq!(pair.side(1).dereg_mr(region.mr), Ok(()));
    pair.close();
}
