//! One adapter as a side.

use std::collections::VecDeque;

use nic::{Config, Instant, Nic, verbs::*};
use wire::{Gid, Qpn};

use super::memory::VecMemory;
use crate::arm::{MEMORY, Refusal, Side, Verb, window_keys::WindowKeys};

/// Where a side's memory begins in its owner's address space.
const BASE: u64 = 0x1_0000_0000;

/// An adapter, and the news it had for its owner.
#[derive(Debug)]
pub(super) struct VirtualSide {
    pub nic: Nic<VecMemory>,
    /// The arm's clock.
    pub now: Instant,
    gid: Gid,
    keys: WindowKeys,
    completion_events: VecDeque<Cq>,
    async_events: VecDeque<AsyncEvent>,
}

impl VirtualSide {
    pub fn new(seed: u64, gid: Gid) -> Self {
        let mut nic = Nic::new(Config { seed, ..Config::default() }, VecMemory::new(BASE, MEMORY));
        nic.set_gid(0, Some(GidEntry { gid, gid_type: GidType::RoceV2, interface_index: 1 }));
        nic.set_port(PortState::Active, Mtu::Mtu4096);
        while nic.poll_event().is_some() {}
        Self {
            nic,
            now: Instant::ZERO,
            gid,
            keys: WindowKeys::default(),
            completion_events: VecDeque::new(),
            async_events: VecDeque::new(),
        }
    }

    /// Takes what the adapter has to tell.
    pub fn take_events(&mut self) {
        while let Some(event) = self.nic.poll_event() {
            match event {
                Event::Completion(cq) => self.completion_events.push_back(cq),
                Event::Async(event) => self.async_events.push_back(event),
            }
        }
    }
}

impl Side for VirtualSide {
    fn address(&self) -> u64 {
        BASE
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        self.nic.memory().store(offset, bytes);
    }

    fn load(&mut self, offset: u64, length: usize) -> Vec<u8> {
        self.nic.memory().load(offset, length)
    }

    fn gid(&self) -> (u8, Gid) {
        (0, self.gid)
    }

    fn progress(&mut self) {}

    fn alloc_pd(&mut self) -> Verb<Pd> {
        Ok(self.nic.alloc_pd()?)
    }

    fn dealloc_pd(&mut self, pd: Pd) -> Verb<()> {
        Ok(self.nic.dealloc_pd(pd)?)
    }

    fn reg_mr(&mut self, pd: Pd, address: u64, length: u64, iova: u64, access: Access) -> Verb<MrInfo> {
        Ok(self.nic.reg_mr(pd, address, length, iova, access)?)
    }

    fn dereg_mr(&mut self, mr: Mr) -> Verb<()> {
        self.nic.dereg_mr(mr).map_err(Refusal::of_region)
    }

    fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Verb<(Mw, u32)> {
        let (window, key) = self.nic.alloc_mw(pd, mw_type)?;
        self.keys.set(window, key);
        Ok((window, key))
    }

    fn dealloc_mw(&mut self, window: Mw) -> Verb<()> {
        Ok(self.nic.dealloc_mw(window)?)
    }

    fn bind_mw(&mut self, qpn: Qpn, wr_id: u64, window: Mw, binding: &Binding) -> Verb<u32> {
        let Self { nic, now, keys, .. } = self;
        keys.bind(window, wr_id, binding, |request| nic.post_send(*now, qpn, request).map_err(Refusal::from))
    }

    fn create_cq(&mut self, capacity: u32) -> Verb<Cq> {
        Ok(self.nic.create_cq(capacity)?.0)
    }

    fn destroy_cq(&mut self, cq: Cq) -> Verb<()> {
        self.completion_events.retain(|other| *other != cq);
        Ok(self.nic.destroy_cq(cq)?)
    }

    fn poll_cq(&mut self, cq: Cq) -> Verb<Option<Completion>> {
        Ok(self.nic.poll_cq(cq)?)
    }

    fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Verb<()> {
        Ok(self.nic.req_notify_cq(cq, solicited_only)?)
    }

    fn cq_event(&mut self) -> Option<Cq> {
        self.take_events();
        self.completion_events.pop_front()
    }

    fn async_event(&mut self) -> Option<AsyncEvent> {
        self.take_events();
        self.async_events.pop_front()
    }

    fn create_srq(&mut self, pd: Pd, attributes: SrqAttributes) -> Verb<Srq> {
        Ok(self.nic.create_srq(pd, attributes)?.0)
    }

    fn modify_srq(&mut self, srq: Srq, change: SrqChange) -> Verb<()> {
        Ok(self.nic.modify_srq(srq, change).map(drop)?)
    }

    fn query_srq(&mut self, srq: Srq) -> Verb<SrqAttributes> {
        self.nic.query_srq(srq).ok_or(Refusal::Invalid)
    }

    fn destroy_srq(&mut self, srq: Srq) -> Verb<()> {
        Ok(self.nic.destroy_srq(srq)?)
    }

    fn post_srq_recv(&mut self, srq: Srq, request: &RecvRequest<'_>) -> Verb<()> {
        Ok(self.nic.post_srq_recv(srq, request)?)
    }

    fn create_ah(&mut self, pd: Pd, path: AddressVector) -> Verb<Ah> {
        Ok(self.nic.create_ah(pd, path)?)
    }

    fn destroy_ah(&mut self, ah: Ah) -> Verb<()> {
        Ok(self.nic.destroy_ah(ah)?)
    }

    fn attach_mcast(&mut self, qpn: Qpn, group: Gid) -> Verb<()> {
        Ok(self.nic.attach_mcast(qpn, group).map(drop)?)
    }

    fn detach_mcast(&mut self, qpn: Qpn, group: Gid) -> Verb<()> {
        Ok(self.nic.detach_mcast(qpn, group).map(drop)?)
    }

    fn create_qp(&mut self, init: &QpInit) -> Verb<Qpn> {
        Ok(self.nic.create_qp(init)?.0)
    }

    fn modify_qp(&mut self, qpn: Qpn, change: &QpChange) -> Verb<()> {
        Ok(self.nic.modify_qp(self.now, qpn, change)?)
    }

    fn query_qp(&mut self, qpn: Qpn) -> Verb<QpAttributes> {
        self.nic.query_qp(qpn).ok_or(Refusal::Invalid)
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Verb<()> {
        Ok(self.nic.destroy_qp(qpn)?)
    }

    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Verb<()> {
        Ok(self.nic.post_send(self.now, qpn, request)?)
    }

    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Verb<()> {
        Ok(self.nic.post_recv(self.now, qpn, request)?)
    }
}
