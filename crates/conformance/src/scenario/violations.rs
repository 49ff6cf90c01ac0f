//! What must not be done, and is not: the requester learns why, the responder learns that, and memory stays as it was.

use nic::verbs::*;

use super::{
    Scenario,
    pair::{ALL, Pair, Setup, request},
    scenario,
    transfer::{SOURCE, TARGET},
};
use crate::arm::{Arm, Need};

pub(super) const SCENARIOS: &[Scenario] = &[
    // The NAK that tells why is sent once; if it is lost, all the requester learns is that nobody answers.
    scenario("remote_violations", remote).needing(&[Need::Lossless]),
    scenario("remote_violation_events", remote_events).needing(&[Need::Lossless, Need::QueuePairEvents]),
    scenario("remote_key_is_dead", dead_key).needing(&[Need::Lossless]),
    scenario("no_bytes_need_no_key", no_bytes),
    scenario("local_violations", local),
    scenario("receive_violations", receive).needing(&[Need::Lossless]),
    scenario("zero_rd_atomic", zero_rd_atomic).needing(&[Need::Lossless]),
];

/// Bytes of the region that requests are aimed at.
const LENGTH: u64 = 4096;

/// What is in it.
const UNTOUCHED: u8 = 0xEE;

/// What is wrong with a request to the other end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Another tag than the key's.
    Tag,
    /// A key that names nothing.
    Index,
    /// The region is of another protection domain.
    Domain,
    /// The first byte behind the region.
    Behind,
    /// Only the last bytes are behind the region.
    Across,
    /// Eight bytes before the region.
    Before,
    /// The end of the range is beyond 2^64.
    Wraps,
    /// The region gives peers no right.
    RegionRight,
    /// The queue pair gives its peer no right.
    QueuePairRight,
}

const WRONGS: [Wrong; 9] = [
    Wrong::Tag,
    Wrong::Index,
    Wrong::Domain,
    Wrong::Behind,
    Wrong::Across,
    Wrong::Before,
    Wrong::Wraps,
    Wrong::RegionRight,
    Wrong::QueuePairRight,
];

/// Requests that name the other end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    LongWrite,
    WriteImmediate,
    Read,
    FetchAdd,
    CompareSwap,
}

const KINDS: [Kind; 6] =
    [Kind::Write, Kind::LongWrite, Kind::WriteImmediate, Kind::Read, Kind::FetchAdd, Kind::CompareSwap];

impl Kind {
    const fn length(self) -> u32 {
        if matches!(self, Self::LongWrite) { 3000 } else { 8 }
    }

    const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    const fn on(self, remote: Remote) -> SendOperation {
        match self {
            Self::Write | Self::LongWrite => SendOperation::Write(remote),
            Self::WriteImmediate => SendOperation::WriteWithImmediate(remote, 7),
            Self::Read => SendOperation::Read(remote),
            Self::FetchAdd => SendOperation::FetchAdd { remote, add: 1 },
            Self::CompareSwap => {
                SendOperation::CompareSwap { remote, compare: u64::MAX / 255 * 0xEE, swap: 1 }
            }
        }
    }
}

impl Wrong {
    /// What the requester is told (IBTA 9.7.4.1, 9.9.3).
    const fn status(self) -> Status {
        match self {
            Self::QueuePairRight => Status::RemoteInvalidRequest,
            _ => Status::RemoteAccessError,
        }
    }

    /// Where such a request goes, if the region is at `start`. Atomics keep their alignment.
    fn address(self, kind: Kind, start: u64) -> u64 {
        let length = u64::from(kind.length());
        match self {
            Self::Behind => start + LENGTH,
            Self::Across => start + LENGTH - length + 8,
            Self::Before => start - 8,
            Self::Wraps if kind.is_atomic() => u64::MAX - 7,
            Self::Wraps => u64::MAX - 3,
            _ => start,
        }
    }
}

/// A pair with a region at end 1 that a request is aimed at wrongly.
struct Attempt<'a> {
    pair: Pair<'a>,
    region: MrInfo,
    other_pd: Pd,
}

impl<'a> Attempt<'a> {
    fn new(arm: &'a mut dyn Arm, wrong: Wrong) -> Self {
        let access = if wrong == Wrong::QueuePairRight { Access::default() } else { ALL };
        let mut pair = Pair::new(arm, Setup { access, ..Setup::default() });
        pair.store(1, TARGET - 64, &[UNTOUCHED; LENGTH as usize + 128]);
        let side = pair.side(1);
        let (start, other_pd) = (side.address() + TARGET, side.alloc_pd().expect("a protection domain"));
        let pd = if wrong == Wrong::Domain { other_pd } else { pair.ends[1].pd };
        let access = if wrong == Wrong::RegionRight { Access::LOCAL } else { Access::ALL };
        let region = pair.side(1).reg_mr(pd, start, LENGTH, start, access).expect("a region");
        let receive = pair.sge(1, TARGET + 16_384, 64);
        pair.recv(1, 9, &[receive]);
        Self { pair, region, other_pd }
    }

    /// Posts the request, and one more that must not be carried out.
    fn post(&mut self, kind: Kind, wrong: Wrong) {
        let Self { pair, region, .. } = self;
        let rkey = match wrong {
            Wrong::Tag => region.rkey ^ 0x5A,
            Wrong::Index => region.rkey ^ 0x5A_5A00,
            _ => region.rkey,
        };
        let address = wrong.address(kind, pair.side(1).address() + TARGET);
        pair.store(0, SOURCE, &[0x11; 3000]);
        let (sge, remote) = (pair.sge(0, SOURCE, kind.length()), pair.remote(0, TARGET));
        pair.send(0, 1, kind.on(Remote { address, rkey }), &[sge]);
        pair.send(0, 2, SendOperation::Write(remote), &[sge]);
    }

    fn close(mut self) {
        let side = self.pair.side(1);
        side.dereg_mr(self.region.mr).expect("a region");
        side.dealloc_pd(self.other_pd).expect("a protection domain");
        self.pair.close();
    }
}

/// Every request with everything that can be wrong with it.
fn remote(arm: &mut dyn Arm) {
    for (kind, wrong) in KINDS.into_iter().flat_map(|kind| WRONGS.map(|wrong| (kind, wrong))) {
        let what = format!("{kind:?}, wrong: {wrong:?}");
        let mut attempt = Attempt::new(arm, wrong);
        attempt.post(kind, wrong);
        let pair = &mut attempt.pair;
        let expected = [(1, wrong.status()), (2, Status::WorkRequestFlushed)];
        assert_eq!(pair.all_sent(0, 2), expected, "{what}");
        assert_eq!(pair.all_received(1, 1), [(9, Status::WorkRequestFlushed)], "{what}: the receive");
        let memory = pair.load(1, TARGET - 64, LENGTH as usize + 128);
        assert!(memory.iter().all(|&byte| byte == UNTOUCHED), "{what}: memory was touched");
        if kind == Kind::Read || kind.is_atomic() {
            assert_eq!(pair.load(0, SOURCE, 8), [0x11; 8], "{what}: something came back");
        }
        assert_eq!([pair.state(0), pair.state(1)], [QpState::Error; 2], "{what}");
        pair.assert_nothing_more();
        attempt.close();
    }
}

/// The responder's program learns of it by an asynchronous event, and only of one.
fn remote_events(arm: &mut dyn Arm) {
    for (kind, wrong) in KINDS.into_iter().flat_map(|kind| WRONGS.map(|wrong| (kind, wrong))) {
        let mut attempt = Attempt::new(arm, wrong);
        attempt.post(kind, wrong);
        let pair = &mut attempt.pair;
        let qpn = pair.ends[1].qpn;
        let expected = match wrong {
            Wrong::QueuePairRight => AsyncEvent::QpRequestError(qpn),
            _ => AsyncEvent::QpAccessError(qpn),
        };
        assert_eq!(pair.event(1), expected, "{kind:?}, wrong: {wrong:?}");
        pair.all_sent(0, 2);
        assert_eq!([pair.event_now(0), pair.event_now(1)], [None, None], "{kind:?}, wrong: {wrong:?}");
        attempt.close();
    }
}

/// A key is dead once its region was deregistered.
fn dead_key(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let pd = pair.ends[1].pd;
    let start = pair.side(1).address() + TARGET;
    let region = pair.side(1).reg_mr(pd, start, LENGTH, start, ALL).expect("a region");
    let sge = pair.sge(0, SOURCE, 8);
    let remote = Remote { address: start, rkey: region.rkey };
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    pair.side(1).dereg_mr(region.mr).expect("a region");
    pair.send(0, 2, SendOperation::Write(remote), &[sge]);
    assert_eq!(pair.all_sent(0, 1), [(2, Status::RemoteAccessError)]);
    pair.close();
}

/// A request of no bytes needs no valid key (IBTA 9.7.4.1.5).
fn no_bytes(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let nowhere = Remote { address: 0xDEAD_0000_0000, rkey: 0 };
    pair.recv(1, 9, &[]);
    pair.send(0, 1, SendOperation::Write(nowhere), &[]);
    pair.send(0, 2, SendOperation::Read(nowhere), &[]);
    pair.send(0, 3, SendOperation::WriteWithImmediate(nowhere, 5), &[]);
    assert_eq!(pair.all_sent(0, 3), [1, 2, 3].map(|id| (id, Status::Success)));
    assert_eq!(pair.all_received(1, 1), [(9, Status::Success)]);
    pair.close();
}

/// What is wrong with a request's own elements is found by its own end: nothing reaches the other.
fn local(arm: &mut dyn Arm) {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Wrong {
        Key,
        Domain,
        Behind,
        Wraps,
        NoWriteRight,
    }
    let wrongs = [Wrong::Key, Wrong::Domain, Wrong::Behind, Wrong::Wraps, Wrong::NoWriteRight];
    let kinds = [Kind::Write, Kind::LongWrite, Kind::WriteImmediate, Kind::Read, Kind::FetchAdd];
    for (kind, wrong) in kinds.into_iter().flat_map(|kind| wrongs.map(|wrong| (kind, wrong))) {
        if wrong == Wrong::NoWriteRight && !matches!(kind, Kind::Read | Kind::FetchAdd) {
            continue; // It is read only.
        }
        let mut pair = Pair::new(arm, Setup::default());
        let (start, own_pd) = (pair.side(0).address(), pair.ends[0].pd);
        let other_pd = pair.side(0).alloc_pd().expect("a protection domain");
        let pd = if wrong == Wrong::Domain { other_pd } else { own_pd };
        let access = Access { local_write: wrong != Wrong::NoWriteRight, ..Access::default() };
        let region = pair.side(0).reg_mr(pd, start, LENGTH, start, access).expect("a region");
        let good = Sge { address: start, length: kind.length(), lkey: region.lkey };
        let sge = match wrong {
            Wrong::Key => Sge { lkey: good.lkey ^ 0x5A_5A00, ..good },
            Wrong::Behind => Sge { address: start + LENGTH - 4, ..good },
            Wrong::Wraps => Sge { address: u64::MAX - 3, ..good },
            Wrong::Domain | Wrong::NoWriteRight => good,
        };
        pair.store(1, TARGET, &[UNTOUCHED; 3000]);
        let (remote, fine) = (pair.remote(0, TARGET), pair.sge(0, SOURCE, 8));
        pair.send(0, 1, kind.on(remote), &[sge]);
        pair.send(0, 2, SendOperation::Write(remote), &[fine]);
        let expected = [(1, Status::LocalProtectionError), (2, Status::WorkRequestFlushed)];
        assert_eq!(pair.all_sent(0, 2), expected, "{kind:?}, wrong: {wrong:?}");
        assert_eq!(pair.load(1, TARGET, 3000), [UNTOUCHED; 3000], "{kind:?}, wrong: {wrong:?}");
        assert_eq!(
            [pair.state(0), pair.state(1)],
            [QpState::Error, QpState::Rts],
            "{kind:?}, wrong: {wrong:?}"
        );
        pair.side(0).dereg_mr(region.mr).expect("a region");
        pair.side(0).dealloc_pd(other_pd).expect("a protection domain");
        pair.close();
    }
}

/// Receives that cannot take the message: both ends learn of it, and both connections end (IBTA 9.9.3).
fn receive(arm: &mut dyn Arm) {
    #[derive(Clone, Copy, Debug)]
    enum Wrong {
        TooShort,
        TooShortForLong,
        Key,
        NoWriteRight,
    }
    let too_short = (Status::LocalLengthError, Status::RemoteInvalidRequest);
    let unusable = (Status::LocalProtectionError, Status::RemoteOperationError);
    let cases = [
        (Wrong::TooShort, too_short),
        (Wrong::TooShortForLong, too_short),
        (Wrong::Key, unusable),
        (Wrong::NoWriteRight, unusable),
    ];
    for (wrong, (at_receiver, at_sender)) in cases {
        let mut pair = Pair::new(arm, Setup::default());
        let (start, pd) = (pair.side(1).address() + TARGET, pair.ends[1].pd);
        let read_only = pair.side(1).reg_mr(pd, start, LENGTH, start, Access::default()).expect("a region");
        let good = pair.sge(1, TARGET, 64);
        let (scatter, length) = match wrong {
            Wrong::TooShort => (good, 65),
            Wrong::TooShortForLong => (Sge { length: 2000, ..good }, 3000),
            Wrong::Key => (Sge { lkey: good.lkey ^ 0x5A_5A00, ..good }, 64),
            Wrong::NoWriteRight => (Sge { lkey: read_only.lkey, ..good }, 64),
        };
        pair.recv(1, 8, &[scatter]);
        pair.recv(1, 9, &[good]);
        let sge = pair.sge(0, SOURCE, length);
        pair.send(0, 1, SendOperation::Send, &[sge]);
        assert_eq!(pair.all_sent(0, 1), [(1, at_sender)], "{wrong:?}");
        let expected = [(8, at_receiver), (9, Status::WorkRequestFlushed)];
        assert_eq!(pair.all_received(1, 2), expected, "{wrong:?}");
        assert_eq!([pair.state(0), pair.state(1)], [QpState::Error; 2], "{wrong:?}");
        pair.side(1).dereg_mr(read_only.mr).expect("a region");
        pair.close();
    }
}

/// An end that accepts no READ refuses one; an end that may send none does not.
fn zero_rd_atomic(arm: &mut dyn Arm) {
    let mut pair = Pair::unconnected(arm, Setup::default());
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        for index in 0..2 {
            let change = pair.change_to(index, state);
            let accepted = change.max_dest_rd_atomic.map(|most| if index == 1 { 0 } else { most });
            pair.modify(index, &QpChange { max_dest_rd_atomic: accepted, ..change }).expect("zero is legal");
        }
    }
    let (sge, remote) = (pair.sge(0, SOURCE, 8), pair.remote(0, TARGET));
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)], "what is no READ");
    let read = request(2, SendOperation::Read(remote), std::slice::from_ref(&sge));
    pair.post(0, &read).expect("a request");
    assert_eq!(pair.all_sent(0, 1), [(2, Status::RemoteInvalidRequest)]);
    pair.close();
}
