mod model;

use super::window::BindError;
use super::*;
use crate::verbs::Binding;

const PD: Pd = Pd(1);
const OTHER_PD: Pd = Pd(2);
const QPN: Qpn = Qpn::new(8);
const OTHER_QPN: Qpn = Qpn::new(9);

const NOTHING: Access = Access {
    local_write: false,
    remote_write: false,
    remote_read: false,
    remote_atomic: false,
    window_bind: false,
    zero_based: false,
    on_demand: false,
    relaxed_ordering: false,
};
const READ: Access = Access { remote_read: true, ..NOTHING };
const ALL: Access =
    Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true, ..NOTHING };
const BINDABLE: Access = Access { window_bind: true, ..ALL };

fn table() -> KeyTable {
    KeyTable::new(&Limits::default(), 1)
}

/// A table with a region of 64 bytes at 0x1000 that is named from 0x5000 on.
fn table_with(access: Access) -> (KeyTable, MrInfo) {
    let mut keys = table();
    let info = keys.register(PD, 0x1000, 64, 0x5000, access).unwrap();
    (keys, info)
}

fn sge(address: u64, length: u32, lkey: u32) -> Sge {
    Sge { address, length, lkey }
}

fn binding(info: MrInfo, access: Access) -> Binding {
    Binding { lkey: info.lkey, address: 0x5010, length: 16, access }
}

#[test]
fn iova_is_translated() {
    let (keys, info) = table_with(ALL);
    let segment = keys.local(PD, &sge(0x5008, 8, info.lkey), true);
    assert_eq!(segment, Ok(Segment { address: 0x1008, length: 8 }));
    assert_eq!(keys.remote(PD, QPN, info.rkey, 0x5000, 64, RemoteNeed::Read), Ok(0x1000));
}

#[test]
fn zero_based_addresses_are_offsets() {
    let (keys, info) = table_with(Access { zero_based: true, ..ALL });
    assert_eq!(keys.remote(PD, QPN, info.rkey, 63, 1, RemoteNeed::Write), Ok(0x103F));
    assert_eq!(keys.remote(PD, QPN, info.rkey, 0x5000, 1, RemoteNeed::Write), Err(KeyError::OutOfBounds));
}

#[test]
fn ranges_that_wrap_are_out_of_bounds() {
    let mut keys = table();
    let top = u64::MAX - 64;
    let info = keys.register(PD, 0x1000, 64, top, ALL).unwrap();
    let remote = |address, length| keys.remote(PD, QPN, info.rkey, address, length, RemoteNeed::Write);
    assert_eq!(remote(top, 64), Ok(0x1000));
    for (address, length) in
        [(top, 65), (top + 63, 2), (u64::MAX, 2), (top, u64::MAX), (top + 1, u64::MAX - 1)]
    {
        assert_eq!(remote(address, length), Err(KeyError::OutOfBounds), "{address:#x} {length:#x}");
    }
    assert_eq!(keys.local(PD, &sge(u64::MAX, u32::MAX, info.lkey), false), Err(KeyError::OutOfBounds));
    assert_eq!(keys.register(PD, u64::MAX, 2, 0, ALL), Err(RegisterError::RangeWraps));
    assert_eq!(keys.register(PD, 0, 2, u64::MAX, ALL), Err(RegisterError::RangeWraps));
}

#[test]
fn rights_are_checked() {
    let (keys, info) = table_with(READ);
    let remote = |need| keys.remote(PD, QPN, info.rkey, 0x5000, 8, need);
    assert_eq!(remote(RemoteNeed::Read), Ok(0x1000));
    assert_eq!(remote(RemoteNeed::Write), Err(KeyError::NoRight));
    assert_eq!(remote(RemoteNeed::Atomic), Err(KeyError::NoRight));
    assert!(keys.local(PD, &sge(0x5000, 8, info.lkey), false).is_ok());
    assert_eq!(keys.local(PD, &sge(0x5000, 8, info.lkey), true), Err(KeyError::NoRight));
    let needs_local_write = Access { remote_atomic: true, ..NOTHING };
    let refused = table().register(PD, 0, 8, 0, needs_local_write);
    assert_eq!(refused, Err(RegisterError::AccessNeedsLocalWrite));
}

#[test]
fn other_domains_and_stale_or_made_up_keys_get_nothing() {
    let (mut keys, info) = table_with(ALL);
    let remote = |keys: &KeyTable, pd, rkey| keys.remote(pd, QPN, rkey, 0x5000, 8, RemoteNeed::Read);
    assert_eq!(remote(&keys, OTHER_PD, info.rkey), Err(KeyError::WrongPd));
    assert_eq!(remote(&keys, PD, info.rkey ^ 1), Err(KeyError::Unknown));
    assert_eq!(remote(&keys, PD, info.rkey ^ 0x100), Err(KeyError::Unknown));
    assert_eq!(keys.deregister(info.mr), Ok(PD));
    assert_eq!(remote(&keys, PD, info.rkey), Err(KeyError::Unknown));
    assert_eq!(keys.deregister(info.mr), Err(DestroyError::UnknownHandle));
}

#[test]
fn nothing_is_reached_without_a_key() {
    let keys = table();
    assert_eq!(keys.remote(PD, QPN, 0, 7, 0, RemoteNeed::Write), Ok(7));
    assert_eq!(keys.local(PD, &sge(7, 0, 0), true), Ok(Segment { address: 7, length: 0 }));
}

#[test]
fn atomics_need_aligned_words_where_the_memory_is() {
    let mut keys = table();
    let info = keys.register(PD, 0x1004, 64, 0x5000, ALL).unwrap();
    let atomic = |address| keys.remote(PD, QPN, info.rkey, address, 8, RemoteNeed::Atomic);
    assert_eq!(atomic(0x5000), Err(KeyError::Misaligned));
    assert_eq!(atomic(0x5004), Ok(0x1008));
}

#[test]
fn reregistering_keeps_the_keys_and_changes_what_is_named() {
    let (mut keys, info) = table_with(ALL);
    let change = MrChange { pd: Some(OTHER_PD), translation: Some((0x9000, 8, 0)), access: Some(READ) };
    assert_eq!(keys.reregister(info.mr, change), Ok(PD));
    assert_eq!(keys.info(info.mr), Some(info));
    assert_eq!(keys.remote(OTHER_PD, QPN, info.rkey, 0, 8, RemoteNeed::Read), Ok(0x9000));
    assert_eq!(keys.remote(OTHER_PD, QPN, info.rkey, 0, 8, RemoteNeed::Write), Err(KeyError::NoRight));

    let wraps = MrChange { translation: Some((u64::MAX, 8, 0)), access: Some(ALL), ..change };
    assert_eq!(keys.reregister(info.mr, wraps), Err(RegisterError::RangeWraps));
    assert_eq!(keys.remote(OTHER_PD, QPN, info.rkey, 0, 8, RemoteNeed::Write), Err(KeyError::NoRight));
}

#[test]
fn limits_count_regions_and_windows_apart() {
    let mut keys = KeyTable::new(&Limits { max_mr: 1, max_mw: 1, max_mr_size: 64, ..Limits::default() }, 1);
    assert_eq!(keys.register(PD, 0, 65, 0, ALL), Err(RegisterError::InvalidAttribute));
    let info = keys.register(PD, 0, 64, 0, ALL).unwrap();
    assert_eq!(keys.register(PD, 0, 64, 0, ALL), Err(RegisterError::TooMany));
    let (mw, _) = keys.allocate_window(PD, MwType::Type1).unwrap();
    assert_eq!(keys.allocate_window(PD, MwType::Type1), Err(CreateError::TooMany));
    assert_eq!(keys.deregister(info.mr), Ok(PD));
    assert_eq!(keys.deallocate_window(mw), Ok(PD));
    assert!(keys.register(PD, 0, 64, 0, ALL).is_ok() && keys.allocate_window(PD, MwType::Type2).is_ok());
}

#[test]
fn a_window_gives_its_own_rights_on_its_own_range() {
    let (mut keys, info) = table_with(BINDABLE);
    let (mw, first) = keys.allocate_window(PD, MwType::Type1).unwrap();
    let read = |keys: &KeyTable, key, address, length| {
        keys.remote(PD, OTHER_QPN, key, address, length, RemoteNeed::Read)
    };
    assert_eq!(read(&keys, first, 0x5010, 1), Err(KeyError::Unknown));
    let key = first.wrapping_add(1) & 0xFF | first & !0xFF;
    keys.bind(PD, QPN, mw, key, &binding(info, READ)).unwrap();
    assert_eq!(read(&keys, key, 0x5010, 16), Ok(0x1010));
    assert_eq!(read(&keys, key, 0x500F, 1), Err(KeyError::OutOfBounds));
    assert_eq!(read(&keys, key, 0x5010, 17), Err(KeyError::OutOfBounds));
    assert_eq!(read(&keys, first, 0x5010, 1), Err(KeyError::Unknown));
    assert_eq!(keys.remote(PD, QPN, key, 0x5010, 8, RemoteNeed::Write), Err(KeyError::NoRight));
    assert_eq!(keys.remote(OTHER_PD, QPN, key, 0x5010, 8, RemoteNeed::Read), Err(KeyError::WrongPd));
    assert_eq!(keys.local(PD, &sge(0x5010, 1, key), false), Err(KeyError::Unknown));

    let unbinding = Binding { length: 0, ..binding(info, READ) };
    keys.bind(PD, QPN, mw, first, &unbinding).unwrap();
    assert_eq!(read(&keys, first, 0x5010, 16), Err(KeyError::Unknown));
}

#[test]
fn a_type_2_window_serves_one_queue_pair_until_it_is_invalidated() {
    let (mut keys, info) = table_with(BINDABLE);
    let (mw, key) = keys.allocate_window(PD, MwType::Type2).unwrap();
    let read = |keys: &KeyTable, qpn| keys.remote(PD, qpn, key, 0x5010, 16, RemoteNeed::Read);
    // The key byte may be what it was.
    keys.bind(PD, QPN, mw, key, &binding(info, READ)).unwrap();
    assert_eq!(read(&keys, QPN), Ok(0x1010));
    assert_eq!(read(&keys, OTHER_QPN), Err(KeyError::WrongQp));
    assert_eq!(keys.bind(PD, QPN, mw, key, &binding(info, READ)), Err(BindError::AlreadyBound));
    assert_eq!(keys.invalidate(PD, OTHER_QPN, key), Err(KeyError::WrongQp));
    assert_eq!(keys.invalidate(OTHER_PD, QPN, key), Err(KeyError::WrongPd));
    assert_eq!(keys.invalidate(PD, QPN, key ^ 1), Err(KeyError::Unknown));
    assert_eq!(keys.invalidate(PD, QPN, key), Ok(()));
    assert_eq!(read(&keys, QPN), Err(KeyError::Unknown));
    assert_eq!(keys.invalidate(PD, QPN, key), Err(KeyError::Unknown));

    keys.bind(PD, QPN, mw, key, &binding(info, READ)).unwrap();
    keys.unbind_all(OTHER_QPN);
    assert_eq!(read(&keys, QPN), Ok(0x1010));
    keys.unbind_all(QPN);
    assert_eq!(read(&keys, QPN), Err(KeyError::Unknown));
    assert_eq!(keys.deregister(info.mr), Ok(PD));
}

#[test]
fn zero_based_windows_are_of_type_2() {
    let (mut keys, info) = table_with(BINDABLE);
    let zero_based = binding(info, Access { zero_based: true, ..READ });
    let (mw, key) = keys.allocate_window(PD, MwType::Type1).unwrap();
    assert_eq!(keys.bind(PD, QPN, mw, key, &zero_based), Err(BindError::ZeroBasedWindow));
    let (mw, key) = keys.allocate_window(PD, MwType::Type2).unwrap();
    keys.bind(PD, QPN, mw, key, &zero_based).unwrap();
    assert_eq!(keys.remote(PD, QPN, key, 15, 1, RemoteNeed::Read), Ok(0x101F));
    assert_eq!(keys.remote(PD, QPN, key, 16, 1, RemoteNeed::Read), Err(KeyError::OutOfBounds));
}

#[test]
fn bindings_are_checked() {
    let (mut keys, info) = table_with(BINDABLE);
    let (mw, key) = keys.allocate_window(PD, MwType::Type2).unwrap();
    let good = binding(info, READ);
    let mut refuse = |pd, mw, binding, error| {
        assert_eq!(keys.bind(pd, QPN, mw, key, &binding), Err(error));
    };
    refuse(PD, Mw(u32::MAX), good, BindError::UnknownWindow);
    refuse(PD, Mw(info.mr.0), good, BindError::UnknownWindow);
    refuse(OTHER_PD, mw, good, BindError::WrongPd);
    refuse(PD, mw, Binding { length: 0, ..good }, BindError::NoLength);
    refuse(PD, mw, Binding { lkey: info.lkey ^ 1, ..good }, BindError::UnknownRegion);
    refuse(PD, mw, Binding { lkey: key, ..good }, BindError::UnknownRegion);
    refuse(PD, mw, Binding { length: 49, ..good }, BindError::OutOfBounds);
    refuse(PD, mw, Binding { length: u64::MAX, ..good }, BindError::OutOfBounds);
    refuse(PD, mw, Binding { address: 0x4FFF, ..good }, BindError::OutOfBounds);

    let mut refuse_region = |pd, access, granted, error| {
        let info = keys.register(pd, 0x1000, 64, 0x5000, access).unwrap();
        assert_eq!(keys.bind(PD, QPN, mw, key, &binding(info, granted)), Err(error));
    };
    refuse_region(OTHER_PD, BINDABLE, READ, BindError::WrongPd);
    refuse_region(PD, ALL, READ, BindError::NoBindRight);
    refuse_region(PD, Access { zero_based: true, ..BINDABLE }, READ, BindError::ZeroBasedRegion);
    let read_only = Access { window_bind: true, ..NOTHING };
    let write = Access { remote_write: true, ..NOTHING };
    refuse_region(PD, read_only, write, BindError::NeedsLocalWrite);
}

#[test]
fn a_region_with_a_window_cannot_go_or_change() {
    let (mut keys, info) = table_with(BINDABLE);
    let (mw, key) = keys.allocate_window(PD, MwType::Type2).unwrap();
    keys.bind(PD, QPN, mw, key, &binding(info, READ)).unwrap();
    let change = MrChange { access: Some(READ), ..MrChange::default() };
    assert_eq!(keys.deregister(info.mr), Err(DestroyError::Busy));
    assert_eq!(keys.reregister(info.mr, change), Err(RegisterError::WindowBound));
    assert_eq!(keys.invalidate(PD, QPN, info.rkey), Err(KeyError::NotInvalidatable));
    assert_eq!(keys.deallocate_window(mw), Ok(PD));
    assert_eq!(keys.remote(PD, QPN, key, 0x5010, 1, RemoteNeed::Read), Err(KeyError::Unknown));
    assert_eq!(keys.deregister(info.mr), Ok(PD));
}

#[test]
fn type_1_windows_and_regions_are_not_invalidated() {
    let (mut keys, info) = table_with(BINDABLE);
    let (mw, key) = keys.allocate_window(PD, MwType::Type1).unwrap();
    keys.bind(PD, QPN, mw, key, &binding(info, READ)).unwrap();
    assert_eq!(keys.invalidate(PD, QPN, key), Err(KeyError::NotInvalidatable));
    assert_eq!(keys.invalidate(PD, QPN, info.lkey), Err(KeyError::NotInvalidatable));
    assert_eq!(keys.remote(PD, QPN, key, 0x5010, 1, RemoteNeed::Read), Ok(0x1010));
}
