use core::net::Ipv4Addr;

use wire::{Gid, Qpn};

use super::*;
use crate::memory::PhantomMemory;
use crate::time::Instant;

const UNKNOWN: u32 = u32::MAX;

fn config() -> Config {
    let limits = Limits { max_qp: 4, max_pd: 4, max_mcast_qp_attach: 2, ..Limits::default() };
    Config { limits, seed: 1, ..Config::default() }
}

/// An adapter with what a queue pair is made of.
struct Fixture {
    nic: Nic<PhantomMemory>,
    pd: Pd,
    send_cq: Cq,
    recv_cq: Cq,
}

impl Fixture {
    fn new() -> Self {
        let mut nic = Nic::new(config(), PhantomMemory);
        let pd = nic.alloc_pd().unwrap();
        let (send_cq, _) = nic.create_cq(16).unwrap();
        let (recv_cq, _) = nic.create_cq(16).unwrap();
        Self { nic, pd, send_cq, recv_cq }
    }

    fn init(&self, qp_type: QpType) -> QpInit {
        let capabilities = QpCapabilities {
            max_send_wr: 8,
            max_recv_wr: 8,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 64,
        };
        QpInit {
            pd: self.pd,
            qp_type,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: None,
            capabilities,
            signal_all: false,
        }
    }

    fn qp(&mut self, qp_type: QpType) -> Qpn {
        self.nic.create_qp(&self.init(qp_type)).unwrap().0
    }

    fn srq(&mut self) -> Srq {
        let attributes = SrqAttributes { max_wr: 8, max_sge: 1, limit: 0 };
        self.nic.create_srq(self.pd, attributes).unwrap().0
    }
}

fn group() -> Gid {
    Gid::from(Ipv4Addr::new(239, 1, 1, 1))
}

#[test]
fn a_protection_domain_stays_while_anything_is_in_it() {
    let mut f = Fixture::new();
    let nic = &mut f.nic;
    let (pd, other) = (f.pd, nic.alloc_pd().unwrap());
    let info = nic.reg_mr(pd, 0, 64, 0, Access::default()).unwrap();
    assert_eq!(nic.dealloc_pd(pd), Err(DestroyError::Busy));
    nic.rereg_mr(info.mr, MrChange { pd: Some(other), ..MrChange::default() }).unwrap();
    assert_eq!(nic.dealloc_pd(other), Err(DestroyError::Busy));
    nic.dereg_mr(info.mr).unwrap();
    nic.dealloc_pd(other).unwrap();

    let (mw, _) = nic.alloc_mw(pd, MwType::Type1).unwrap();
    assert_eq!(nic.dealloc_pd(pd), Err(DestroyError::Busy));
    nic.dealloc_mw(mw).unwrap();

    let srq = f.srq();
    assert_eq!(f.nic.dealloc_pd(pd), Err(DestroyError::Busy));
    f.nic.destroy_srq(srq).unwrap();

    let qpn = f.qp(QpType::Rc);
    assert_eq!(f.nic.dealloc_pd(pd), Err(DestroyError::Busy));
    f.nic.destroy_qp(qpn).unwrap();

    f.nic.dealloc_pd(pd).unwrap();
    assert_eq!(f.nic.dealloc_pd(pd), Err(DestroyError::UnknownHandle));
}

#[test]
fn what_needs_a_protection_domain_needs_one_that_exists() {
    let mut nic = Fixture::new().nic;
    let pd = Pd(UNKNOWN);
    let unknown = CreateError::UnknownHandle;
    assert_eq!(nic.reg_mr(pd, 0, 64, 0, Access::default()), Err(RegisterError::UnknownHandle));
    assert_eq!(nic.alloc_mw(pd, MwType::Type2), Err(unknown));
    assert_eq!(nic.create_srq(pd, SrqAttributes::default()), Err(unknown));
    assert_eq!(nic.create_ah(pd, AddressVector::default()), Err(unknown));
}

#[test]
fn a_refused_reregistration_moves_nothing() {
    let mut f = Fixture::new();
    let other = f.nic.alloc_pd().unwrap();
    let info = f.nic.reg_mr(f.pd, 0, 64, 0, Access::default()).unwrap();
    let change = MrChange { pd: Some(other), ..MrChange::default() };
    let wraps = MrChange { translation: Some((u64::MAX, 2, 0)), ..change };
    assert_eq!(f.nic.rereg_mr(info.mr, MrChange::default()), Err(RegisterError::InvalidAttribute));
    assert_eq!(f.nic.rereg_mr(info.mr, wraps), Err(RegisterError::RangeWraps));
    let unknown = MrChange { pd: Some(Pd(UNKNOWN)), ..change };
    assert_eq!(f.nic.rereg_mr(info.mr, unknown), Err(RegisterError::UnknownHandle));
    assert_eq!(f.nic.dealloc_pd(f.pd), Err(DestroyError::Busy));
    assert_eq!(f.nic.dealloc_pd(other), Ok(()));
}

#[test]
fn queues_stay_while_a_queue_pair_uses_them() {
    let mut f = Fixture::new();
    let srq = f.srq();
    let init = QpInit { srq: Some(srq), send_cq: f.recv_cq, ..f.init(QpType::Rc) };
    let (qpn, _) = f.nic.create_qp(&init).unwrap();
    assert_eq!(f.nic.destroy_cq(f.recv_cq), Err(DestroyError::Busy));
    assert_eq!(f.nic.destroy_srq(srq), Err(DestroyError::Busy));
    assert_eq!(f.nic.destroy_cq(f.send_cq), Ok(()));
    f.nic.destroy_qp(qpn).unwrap();
    assert_eq!(f.nic.destroy_cq(f.recv_cq), Ok(()));
    assert_eq!(f.nic.destroy_srq(srq), Ok(()));
    assert_eq!(f.nic.destroy_qp(qpn), Err(DestroyError::UnknownHandle));
    assert_eq!(f.nic.query_qp(qpn), None);
}

#[test]
fn queue_pairs_need_parts_that_exist() {
    let mut f = Fixture::new();
    let good = f.init(QpType::Rc);
    for init in [
        QpInit { pd: Pd(UNKNOWN), ..good },
        QpInit { send_cq: Cq(UNKNOWN), ..good },
        QpInit { recv_cq: Cq(UNKNOWN), ..good },
        QpInit { srq: Some(Srq(UNKNOWN)), ..good },
    ] {
        assert_eq!(f.nic.create_qp(&init), Err(CreateError::UnknownHandle));
    }
}

#[test]
fn sizes_are_checked_and_told() {
    let mut f = Fixture::new();
    let good = f.init(QpType::Ud);
    let limits = f.nic.config().limits;
    let sizes = good.capabilities;
    for capabilities in [
        QpCapabilities { max_send_wr: limits.max_qp_wr + 1, ..sizes },
        QpCapabilities { max_recv_wr: limits.max_qp_wr + 1, ..sizes },
        QpCapabilities { max_send_sge: limits.max_sge + 1, ..sizes },
        QpCapabilities { max_recv_sge: limits.max_sge + 1, ..sizes },
        QpCapabilities { max_inline_data: limits.max_inline_data + 1, ..sizes },
    ] {
        let made = f.nic.create_qp(&QpInit { capabilities, ..good });
        assert_eq!(made, Err(CreateError::InvalidSize), "{capabilities:?}");
    }
    let (qpn, granted) = f.nic.create_qp(&good).unwrap();
    let attributes = f.nic.query_qp(qpn).unwrap();
    assert_eq!((granted, attributes.init, attributes.state), (sizes, good, QpState::Reset));

    let srq = f.srq();
    let too_many = QpCapabilities { max_recv_wr: limits.max_qp_wr + 1, ..sizes };
    let shared = QpInit { srq: Some(srq), capabilities: too_many, ..good };
    let expected = QpCapabilities { max_recv_wr: 0, max_recv_sge: 0, ..sizes };
    assert_eq!(f.nic.create_qp(&shared).map(|(_, granted)| granted), Ok(expected));
}

#[test]
fn the_number_of_queue_pairs_is_limited() {
    let mut f = Fixture::new();
    for _ in 0..4 {
        f.qp(QpType::Rc);
    }
    assert_eq!(f.nic.create_qp(&f.init(QpType::Rc)), Err(CreateError::TooMany));
}

#[test]
fn equal_seeds_give_equal_names() {
    let names = |seed| {
        let mut nic = Nic::new(Config { seed, ..config() }, PhantomMemory);
        let pd = nic.alloc_pd().unwrap();
        let info = nic.reg_mr(pd, 0, 64, 0, Access::default()).unwrap();
        let mut f = Fixture { nic, pd, ..Fixture::new() };
        (f.send_cq, f.recv_cq) = (f.nic.create_cq(1).unwrap().0, f.nic.create_cq(1).unwrap().0);
        (info.lkey, f.qp(QpType::Rc))
    };
    assert_eq!(names(1), names(1));
    assert_ne!(names(1).0, names(2).0);
    assert_ne!(names(1).1, names(2).1);
}

#[test]
fn multicast_membership_is_counted_once() {
    let mut f = Fixture::new();
    let (first, second) = (f.qp(QpType::Ud), f.qp(QpType::Ud));
    assert_eq!(f.nic.attach_mcast(first, group()), Ok(true));
    assert_eq!(f.nic.attach_mcast(first, group()), Ok(false));
    assert_eq!(f.nic.attach_mcast(second, group()), Ok(false));
    assert_eq!(f.nic.destroy_qp(first), Err(DestroyError::Busy));
    assert_eq!(f.nic.detach_mcast(first, group()), Ok(false));
    assert_eq!(f.nic.detach_mcast(first, group()), Err(MulticastError::NotAttached));
    assert_eq!(f.nic.destroy_qp(first), Ok(()));
    assert_eq!(f.nic.detach_mcast(second, group()), Ok(true));
    assert_eq!(f.nic.detach_mcast(first, group()), Err(MulticastError::UnknownHandle));

    let connected = f.qp(QpType::Rc);
    assert_eq!(f.nic.attach_mcast(connected, group()), Err(MulticastError::NotUd));
    let unicast = Gid::from(Ipv4Addr::LOCALHOST);
    assert_eq!(f.nic.attach_mcast(second, unicast), Err(MulticastError::NotMulticast));
}

#[test]
fn a_destroyed_object_takes_its_events_along() {
    let mut f = Fixture::new();
    let qpn = f.qp(QpType::Rc);
    let srq = f.srq();
    for event in [
        Event::Async(AsyncEvent::QpFatal(qpn)),
        Event::Completion(f.send_cq),
        Event::Async(AsyncEvent::CqError(f.send_cq)),
        Event::Async(AsyncEvent::SrqLimitReached(srq)),
        Event::Completion(f.recv_cq),
    ] {
        f.nic.events.push_back(event);
    }
    f.nic.destroy_qp(qpn).unwrap();
    f.nic.destroy_cq(f.send_cq).unwrap();
    f.nic.destroy_srq(srq).unwrap();
    assert_eq!(f.nic.poll_event(), Some(Event::Completion(f.recv_cq)));
    assert_eq!(f.nic.poll_event(), None);
}

#[test]
fn a_change_of_an_unknown_queue_pair_is_refused() {
    let mut f = Fixture::new();
    let change = QpChange { state: Some(QpState::Reset), ..QpChange::default() };
    let result = f.nic.modify_qp(Instant::ZERO, Qpn::new(5), &change);
    assert_eq!(result, Err(ModifyQpError::UnknownHandle));
}
