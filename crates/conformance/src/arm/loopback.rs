//! Two `host` adapters on the loopback interface of a network of their own: real sockets, the real clock.

use std::{
    io::ErrorKind,
    process::Command,
    sync::{Arc, Once},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use host::{Adapter, CompletionChannel, Config, Device, FaultPlan, slot};
use nic::verbs::*;
use wire::{Gid, Qpn};

use super::{
    LOSSY, MEMORY, Need, Refusal, Side, Verb,
    buffer::Buffer,
    real_time::{Pace, RealTime},
    window_keys::WindowKeys,
};

/// Two adapters in a network of this thread's, whose arriving packets suffer as `faults` say.
///
/// # Errors
/// When not root, or an adapter does not open.
pub fn arm(faults: Option<FaultPlan>) -> Result<RealTime> {
    enter_network()?;
    let open = |number: u64| -> Result<Box<dyn Side>> {
        let faults = faults.map(|plan| FaultPlan { seed: plan.seed.wrapping_mul(2) + number, ..plan });
        Ok(Box::new(AdapterSide::open(Config { faults, ..Config::default() })?))
    };
    let pace = if faults.is_some() { Pace::FAULTY } else { Pace::HOST };
    let arm = RealTime::new([open(0)?, open(1)?], pace);
    Ok(match faults {
        Some(_) => arm.without(Need::Lossless, LOSSY),
        None => arm,
    })
}

/// Gives the calling thread a network namespace and a slot service of its own, once.
fn enter_network() -> Result<()> {
    thread_local!(static ONCE: Once = const { Once::new() });
    let mut made = Ok(());
    ONCE.with(|once| once.call_once(|| made = make_network()));
    made
}

fn make_network() -> Result<()> {
    // SAFETY: moves this thread alone, and the threads that it starts, into a new network namespace.
    let moved = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
    moved.context("a network namespace, which needs root")?;
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().context("running ip")?;
    ensure!(up.success(), "`ip link set lo up` failed");
    thread::spawn(|| slot::serve(true).expect("a slot service in a network of its own"));
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = Device::new(Config::default()).open() {
        ensure!(Instant::now() < deadline, "the slot service does not answer: {error}");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// One adapter as a side.
struct AdapterSide {
    /// Closed before its memory goes.
    adapter: Adapter,
    memory: Buffer,
    channel: Arc<CompletionChannel>,
    keys: WindowKeys,
    gid: (u8, Gid),
}

impl AdapterSide {
    fn open(config: Config) -> Result<Self> {
        let adapter = Device::new(config).open()?;
        let channel = Arc::new(CompletionChannel::new()?);
        // Whoever asks for an event that is not there shall not sleep.
        rustix::io::ioctl_fionbio(&channel, true)?;
        rustix::io::ioctl_fionbio(adapter.async_events(), true)?;
        let loopback = Gid::from(std::net::IpAddr::from([127, 0, 0, 1]));
        let mut indices = 0..GIDS;
        let index = indices.find(|&index| adapter.gid(index).is_some_and(|entry| entry.gid == loopback));
        let gid = (index.context("the loopback interface has a GID")?, loopback);
        Ok(Self { adapter, memory: Buffer::new(MEMORY as usize), channel, keys: WindowKeys::default(), gid })
    }
}

/// Entries of the GID table that are looked at.
const GIDS: u8 = 64;

/// What a channel holds next, if anything.
fn next<T: Copy>(channel: &host::channel::Channel<T>) -> Option<T> {
    match channel.pop() {
        Ok(entry) => Some(entry),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("a channel: {error}"),
    }
}

impl Side for AdapterSide {
    fn address(&self) -> u64 {
        self.memory.address()
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        self.memory.store(offset, bytes);
    }

    fn load(&mut self, offset: u64, length: usize) -> Vec<u8> {
        self.memory.load(offset, length)
    }

    fn gid(&self) -> (u8, Gid) {
        self.gid
    }

    fn progress(&mut self) {
        self.adapter.progress();
    }

    fn alloc_pd(&mut self) -> Verb<Pd> {
        Ok(self.adapter.alloc_pd()?)
    }

    fn dealloc_pd(&mut self, pd: Pd) -> Verb<()> {
        Ok(self.adapter.dealloc_pd(pd)?)
    }

    fn reg_mr(&mut self, pd: Pd, address: u64, length: u64, iova: u64, access: Access) -> Verb<MrInfo> {
        // SAFETY: scenarios register parts of this side's memory, which outlives the adapter.
        Ok(unsafe { self.adapter.reg_mr(pd, address, length, iova, access) }?)
    }

    fn dereg_mr(&mut self, mr: Mr) -> Verb<()> {
        self.adapter.dereg_mr(mr).map_err(Refusal::of_region)
    }

    fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Verb<(Mw, u32)> {
        let (window, key) = self.adapter.alloc_mw(pd, mw_type)?;
        self.keys.set(window, key);
        Ok((window, key))
    }

    fn dealloc_mw(&mut self, window: Mw) -> Verb<()> {
        Ok(self.adapter.dealloc_mw(window)?)
    }

    fn bind_mw(&mut self, qpn: Qpn, wr_id: u64, window: Mw, binding: &Binding) -> Verb<u32> {
        let Self { adapter, keys, .. } = self;
        keys.bind(window, wr_id, binding, |request| Ok(adapter.post(|poster| poster.send(qpn, request))?))
    }

    fn create_cq(&mut self, capacity: u32) -> Verb<Cq> {
        Ok(self.adapter.create_cq(capacity, Some((Arc::clone(&self.channel), 0)))?.0)
    }

    fn destroy_cq(&mut self, cq: Cq) -> Verb<()> {
        Ok(self.adapter.destroy_cq(cq)?)
    }

    fn poll_cq(&mut self, cq: Cq) -> Verb<Option<Completion>> {
        let mut found = None;
        self.adapter.poll_cq(cq, 1, |completion| found = Some(*completion))?;
        Ok(found)
    }

    fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Verb<()> {
        Ok(self.adapter.req_notify_cq(cq, solicited_only)?)
    }

    fn cq_event(&mut self) -> Option<Cq> {
        next(&self.channel).map(|notification| notification.cq)
    }

    fn async_event(&mut self) -> Option<AsyncEvent> {
        next(self.adapter.async_events())
    }

    fn create_srq(&mut self, pd: Pd, attributes: SrqAttributes) -> Verb<Srq> {
        Ok(self.adapter.create_srq(pd, attributes)?.0)
    }

    fn modify_srq(&mut self, srq: Srq, change: SrqChange) -> Verb<()> {
        Ok(self.adapter.modify_srq(srq, change).map(drop)?)
    }

    fn query_srq(&mut self, srq: Srq) -> Verb<SrqAttributes> {
        self.adapter.query_srq(srq).ok_or(Refusal::Invalid)
    }

    fn destroy_srq(&mut self, srq: Srq) -> Verb<()> {
        Ok(self.adapter.destroy_srq(srq)?)
    }

    fn post_srq_recv(&mut self, srq: Srq, request: &RecvRequest<'_>) -> Verb<()> {
        Ok(self.adapter.post(|poster| poster.srq_recv(srq, request))?)
    }

    fn create_ah(&mut self, pd: Pd, path: AddressVector) -> Verb<Ah> {
        Ok(self.adapter.create_ah(pd, path)?)
    }

    fn destroy_ah(&mut self, ah: Ah) -> Verb<()> {
        Ok(self.adapter.destroy_ah(ah)?)
    }

    fn attach_mcast(&mut self, qpn: Qpn, group: Gid) -> Verb<()> {
        Ok(self.adapter.attach_mcast(qpn, group)?)
    }

    fn detach_mcast(&mut self, qpn: Qpn, group: Gid) -> Verb<()> {
        Ok(self.adapter.detach_mcast(qpn, group)?)
    }

    fn create_qp(&mut self, init: &QpInit) -> Verb<Qpn> {
        Ok(self.adapter.create_qp(init)?.0)
    }

    fn modify_qp(&mut self, qpn: Qpn, change: &QpChange) -> Verb<()> {
        Ok(self.adapter.modify_qp(qpn, change)?)
    }

    fn query_qp(&mut self, qpn: Qpn) -> Verb<QpAttributes> {
        self.adapter.query_qp(qpn).ok_or(Refusal::Invalid)
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Verb<()> {
        Ok(self.adapter.destroy_qp(qpn)?)
    }

    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Verb<()> {
        Ok(self.adapter.post(|poster| poster.send(qpn, request))?)
    }

    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Verb<()> {
        Ok(self.adapter.post(|poster| poster.recv(qpn, request))?)
    }
}
