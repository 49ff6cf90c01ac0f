//! The safe API: what the C ABI offers, between two contexts of one process; and that no order of drops
//! and no wrong use does harm.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use host::*;

const PATIENCE: Duration = Duration::from_secs(20);
const SIZE: usize = 1 << 20;

fn open() -> Context {
    host::slot::start_in_child().unwrap();
    Context::open(&devices().unwrap()[0]).unwrap()
}

/// A side of a connection.
struct Side {
    pd: ProtectionDomain,
    queue: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
}

impl Side {
    fn new(qp_type: QpType) -> Self {
        let pd = open().protection_domain().unwrap();
        let queue = pd.context().completion_queue(512).unwrap();
        let qp = pd.queue_pair(qp_type, &queue).build().unwrap();
        let memory = pd.register(SIZE, Access { window_bind: true, ..Access::ALL }).unwrap();
        Self { pd, queue, qp, memory }
    }

    fn wait(&self) -> Completion {
        self.queue.wait(PATIENCE).unwrap()
    }

    /// Posts a request and waits for its completion.
    fn carry_out(&self, work: Work<'_>) -> Completion {
        self.qp.post(&work.id(99)).unwrap();
        let done = self.wait();
        assert_eq!(done.wr_id, 99);
        done
    }
}

fn pair(qp_type: QpType) -> (Side, Side) {
    let (a, b) = (Side::new(qp_type), Side::new(qp_type));
    a.qp.connect(&b.qp.endpoint()).unwrap();
    b.qp.connect(&a.qp.endpoint()).unwrap();
    (a, b)
}

#[test]
fn handles_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<Context>();
    check::<ProtectionDomain>();
    check::<MemoryRegion>();
    check::<MemoryWindow>();
    check::<CompletionQueue>();
    check::<EventChannel>();
    check::<QueuePair>();
    check::<SharedReceiveQueue>();
    check::<AddressHandle>();
}

#[test]
fn messages_of_every_kind_arrive() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let (a, b) = pair(qp_type);
        for id in 0..3 {
            b.qp.receive(id, &[b.memory.slice(..100).unwrap(), b.memory.slice(1000..).unwrap()]).unwrap();
        }
        a.memory.fill(.., 7).unwrap();
        let parts = [a.memory.slice(..64).unwrap(), a.memory.slice(5000..10_000).unwrap()];
        assert!(a.carry_out(Work::send(&parts)).is_success());
        let received = b.wait();
        assert_eq!(
            (received.wr_id, received.byte_length, received.opcode),
            (0, 5064, CompletionOpcode::Recv)
        );
        assert_eq!(b.memory.to_vec(..101).unwrap(), [vec![7; 100], vec![0]].concat());
        assert_eq!(b.memory.to_vec(1000..5965).unwrap(), [vec![7; 4964], vec![0]].concat());

        let inline: &[&[u8]] = &[b"in", b"line"];
        assert!(
            a.carry_out(Work::send_with_immediate(Data::Inline(inline), 0xABCD).solicited()).is_success()
        );
        let received = b.wait();
        assert_eq!((received.wr_id, received.immediate), (1, Immediate::Data(0xABCD)));
        assert_eq!(b.memory.to_vec(..6).unwrap(), b"inline");

        let to = b.memory.remote().at(2000);
        let written = a.carry_out(Work::write_with_immediate(Data::Inline(&[b"direct"]), to, 5));
        assert!(written.is_success());
        assert_eq!(b.wait().opcode, CompletionOpcode::RecvWriteWithImmediate);
        assert_eq!(b.memory.to_vec(2000..2006).unwrap(), b"direct");
    }
}

#[test]
fn atomics_tell_what_was_there() {
    let (a, b) = pair(QpType::Rc);
    b.memory.store_u64(16, 5).unwrap();
    let word = b.memory.remote().at(16);
    let into = [a.memory.slice(..8).unwrap()];
    assert!(a.carry_out(Work::compare_swap(&into, word, 4, 9)).is_success());
    assert_eq!((a.memory.load_u64(0).unwrap(), b.memory.load_u64(16).unwrap()), (5, 5));
    assert!(a.carry_out(Work::compare_swap(&into, word, 5, 9)).is_success());
    assert_eq!((a.memory.load_u64(0).unwrap(), b.memory.load_u64(16).unwrap()), (5, 9));
    assert!(a.carry_out(Work::fetch_add(&into, word, u64::MAX).fenced()).is_success());
    assert_eq!((a.memory.load_u64(0).unwrap(), b.memory.load_u64(16).unwrap()), (9, 8));
}

#[test]
fn unsignaled_requests_complete_only_when_they_fail() {
    let (a, b) = pair(QpType::Rc);
    let data = [a.memory.slice(..64).unwrap()];
    let write = Work::write(&data, b.memory.remote().at(0));
    a.qp.post_all(&[write.unsignaled().id(1), write.unsignaled().id(2), write.id(3)]).unwrap();
    assert_eq!(a.wait().wr_id, 3);
    assert_eq!(a.queue.poll().unwrap(), None);

    let nowhere = Remote { address: b.memory.remote().address, rkey: !b.memory.remote().rkey };
    a.qp.post(&Work::write(&data, nowhere).unsignaled().id(4)).unwrap();
    let failed = a.wait();
    assert_eq!((failed.wr_id, failed.status), (4, Status::RemoteAccessError));
    assert_eq!(a.qp.state(), QpState::Error);
}

#[test]
fn datagrams_reach_a_queue_pair_and_a_group() {
    let (a, b) = (Side::new(QpType::Ud), Side::new(QpType::Ud));
    a.qp.activate().unwrap();
    b.qp.activate().unwrap();
    assert!(Side::new(QpType::Rc).qp.activate().is_err());
    let peer = b.qp.endpoint();
    let handle = a.pd.address_handle_to(&peer, 0).unwrap();
    for id in 0..2 {
        b.qp.receive(id, &[b.memory.slice(..2048).unwrap()]).unwrap();
    }
    assert!(a.carry_out(Work::send(Data::Inline(&[b"datagram"])).to(&handle, &peer)).is_success());
    let received = b.wait();
    assert_eq!((received.byte_length, received.source_qp), (48, a.qp.number()));
    assert_eq!(b.memory.to_vec(40..48).unwrap(), b"datagram");

    let group = Gid::from(std::net::Ipv4Addr::new(239, 1, 2, 3));
    b.qp.join(group).unwrap();
    let to_group = QpEndpoint { gid: group, qpn: Qpn::MULTICAST, ..peer };
    let handle = a.pd.address_handle_to(&to_group, 0).unwrap();
    assert!(a.carry_out(Work::send(Data::Inline(&[b"to all"])).to(&handle, &to_group)).is_success());
    assert_eq!(b.wait().byte_length, 46);
    b.qp.leave(group).unwrap();
    assert_eq!(b.qp.leave(group), Err(MulticastError::NotAttached));
    // A member that is dropped leaves by itself.
    b.qp.join(group).unwrap();
}

#[test]
fn shared_receives_serve_all_and_tell_when_they_run_low() {
    let (a, b) = (Side::new(QpType::Rc), Side::new(QpType::Rc));
    let sizes = SrqAttributes { max_wr: 16, max_sge: 2, limit: 0 };
    let shared = b.pd.shared_receive_queue(sizes).unwrap();
    let targets: Vec<QueuePair> = (0..2)
        .map(|_| b.pd.queue_pair(QpType::Rc, &b.queue).shared_receive_queue(&shared).build().unwrap())
        .collect();
    for id in 0..4 {
        shared.receive(id, &[b.memory.slice(..64).unwrap()]).unwrap();
    }
    shared.arm_limit(3).unwrap();
    assert_eq!(shared.attributes().limit, 3);
    for target in &targets {
        let source = a.pd.queue_pair(QpType::Rc, &a.queue).build().unwrap();
        source.connect(&target.endpoint()).unwrap();
        target.connect(&source.endpoint()).unwrap();
        source.post(&Work::send(Data::Inline(&[b"x"]))).unwrap();
        assert!(a.wait().is_success());
        assert_eq!(b.wait().qpn, target.number());
    }
    let event = b.pd.context().async_events().wait(PATIENCE).unwrap();
    assert_eq!(event, Some(AsyncEvent::SrqLimitReached(shared.handle())));
    assert!(shared.resize(64).unwrap() >= 64);
    assert!(shared.resize(0).is_err());
}

#[test]
fn windows_give_rights_and_take_them_back() {
    let (a, b) = pair(QpType::Rc);
    let write_through = |rkey, offset: u64| {
        let to = Remote { address: b.memory.remote().address + offset, rkey };
        a.carry_out(Work::write(Data::Inline(&[b"w"]), to)).status
    };
    let rights = Access { remote_write: true, ..Access::default() };

    let first = b.pd.memory_window(MwType::Type1).unwrap();
    assert!(b.carry_out(Work::bind(&first, b.memory.slice(..64).unwrap(), rights)).is_success());
    assert_eq!(write_through(first.rkey(), 63), Status::Success);
    let before = first.rkey();
    assert!(b.carry_out(Work::unbind(&first)).is_success());
    assert_ne!(before, first.rkey());

    let second = b.pd.memory_window(MwType::Type2).unwrap();
    assert!(b.carry_out(Work::bind(&second, b.memory.slice(64..128).unwrap(), rights)).is_success());
    assert_eq!(write_through(second.rkey(), 64), Status::Success);
    b.qp.receive(0, &[]).unwrap();
    let taken_back = Work::send_with_invalidate(Data::Inline(&[]), second.rkey());
    assert!(a.carry_out(taken_back).is_success());
    assert_eq!(b.wait().immediate, Immediate::Invalidate(second.rkey()));
    assert_eq!(write_through(second.rkey(), 64), Status::RemoteAccessError);
}

#[test]
fn a_bound_window_is_invalidated_by_its_owner() {
    let (a, b) = pair(QpType::Rc);
    let window = b.pd.memory_window(MwType::Type2).unwrap();
    let rights = Access { remote_read: true, ..Access::default() };
    b.memory.store_u64(0, 77).unwrap();
    assert!(b.carry_out(Work::bind(&window, b.memory.slice(..64).unwrap(), rights)).is_success());
    let from = Remote { address: b.memory.remote().address, rkey: window.rkey() };
    let into = [a.memory.slice(..8).unwrap()];
    assert!(a.carry_out(Work::read(&into, from)).is_success());
    assert_eq!(a.memory.load_u64(0).unwrap(), 77);
    assert!(b.carry_out(Work::invalidate(&window)).is_success());
    assert_eq!(a.carry_out(Work::read(&into, from)).status, Status::RemoteAccessError);
}

#[test]
fn a_region_dropped_under_a_window_stays_until_the_window_goes() {
    let (a, b) = pair(QpType::Rc);
    let region = b.pd.register(4096, Access { window_bind: true, ..Access::ALL }).unwrap();
    let window = b.pd.memory_window(MwType::Type2).unwrap();
    let rights = Access { remote_write: true, remote_read: true, ..Access::default() };
    assert!(b.carry_out(Work::bind(&window, region.slice(..).unwrap(), rights)).is_success());
    let address = region.remote().address;
    drop(region);

    let through = Remote { address, rkey: window.rkey() };
    assert!(a.carry_out(Work::write(Data::Inline(&[b"still there"]), through)).is_success());
    assert!(a.carry_out(Work::read(&[a.memory.slice(..11).unwrap()], through)).is_success());
    assert_eq!(a.memory.to_vec(..11).unwrap(), b"still there");
    drop(window);
    let gone = a.carry_out(Work::read(&[a.memory.slice(..11).unwrap()], through));
    assert_eq!(gone.status, Status::RemoteAccessError);
}

#[test]
fn work_that_names_a_dropped_region_fails() {
    let (a, b) = pair(QpType::Rc);
    // Without a receive, the message waits; then its memory is gone.
    let doomed = a.pd.register(1 << 16, Access::LOCAL).unwrap();
    a.qp.post(&Work::send(&[doomed.slice(..).unwrap()]).id(1)).unwrap();
    while a.pd.context().counters().rcvd_rnr_err == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(doomed);
    b.qp.receive(1, &[b.memory.slice(..).unwrap()]).unwrap();
    let failed = a.wait();
    assert_eq!((failed.wr_id, failed.status), (1, Status::LocalProtectionError));

    // A receive into memory that is gone.
    let (a, b) = pair(QpType::Rc);
    let doomed = b.pd.register(4096, Access::LOCAL).unwrap();
    b.qp.receive(2, &[doomed.slice(..).unwrap()]).unwrap();
    drop(doomed);
    a.qp.post(&Work::send(Data::Inline(&[b"x"]))).unwrap();
    assert_eq!(b.wait().status, Status::LocalProtectionError);
    assert!(!a.wait().is_success());

    // A peer's memory that is gone.
    let (a, b) = pair(QpType::Rc);
    let doomed = b.pd.register(4096, Access::ALL).unwrap();
    let remote = doomed.remote();
    drop(doomed);
    let written = a.carry_out(Work::write(Data::Inline(&[b"x"]), remote.at(0)));
    assert_eq!(written.status, Status::RemoteAccessError);
}

#[test]
fn freed_memory_is_left_alone() {
    // What is allocated in place of a region that peers write to and that is being sent stays as it is.
    let (a, b) = (Side::new(QpType::Rc), Side::new(QpType::Rc));
    let length = 96 << 10;
    for round in 0..50_u8 {
        a.qp.reset().unwrap();
        b.qp.reset().unwrap();
        a.qp.connect(&b.qp.endpoint()).unwrap();
        b.qp.connect(&a.qp.endpoint()).unwrap();
        let (source, target) = (a.pd.register(length, Access::LOCAL), b.pd.register(length, Access::ALL));
        let (source, target) = (source.unwrap(), target.unwrap());
        source.fill(.., 0xFF).unwrap();
        let data = [source.slice(..).unwrap()];
        let write = Work::write(&data, target.remote().at(0));
        a.qp.post_all(&[write; 4]).unwrap();
        if round % 2 == 0 {
            drop(target)
        } else {
            drop(source)
        }
        let replacement = vec![round; length];
        for _ in 0..4 {
            a.wait();
        }
        assert!(replacement.iter().all(|byte| *byte == round), "round {round}");
    }
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    for first in 0..4 {
        let (a, b) = pair(QpType::Rc);
        a.qp.post(&Work::write(&[a.memory.slice(..).unwrap()], b.memory.remote().at(0))).unwrap();
        let Side { pd, queue, qp, memory } = a;
        let mut parts: Vec<Box<dyn Send>> =
            vec![Box::new(pd), Box::new(queue), Box::new(qp), Box::new(memory)];
        parts.rotate_left(first);
        parts.into_iter().for_each(drop);
        drop(b);
    }
}

#[test]
fn regions_change_and_keep_their_keys() {
    let (a, mut b) = pair(QpType::Rc);
    let remote = b.memory.remote();
    let into = [a.memory.slice(..8).unwrap()];
    b.memory.store_u64(0, 1).unwrap();
    b.memory.renew(2 * SIZE).unwrap();
    assert_eq!((b.memory.len(), b.memory.remote().rkey), (2 * SIZE, remote.rkey));
    b.memory.store_u64(SIZE, 2).unwrap();
    assert!(a.carry_out(Work::read(&into, remote.at(0))).is_success());
    assert_eq!(a.memory.load_u64(0).unwrap(), 0);
    assert!(a.carry_out(Work::read(&into, remote.at(SIZE as u64))).is_success());
    assert_eq!(a.memory.load_u64(0).unwrap(), 2);

    let other = b.pd.context().protection_domain().unwrap();
    b.memory.move_to(&other).unwrap();
    b.memory.move_to(&b.pd).unwrap();
    assert_eq!(b.memory.move_to(&a.pd), Err(RegisterError::UnknownHandle));
    b.memory.set_access(Access::LOCAL).unwrap();
    assert_eq!(a.carry_out(Work::read(&into, remote.at(0))).status, Status::RemoteAccessError);
}

#[test]
fn regions_are_named_as_their_owner_likes() {
    let (a, b) = pair(QpType::Rc);
    let at = b.pd.register_at(0x1234_5000, 4096, Access::ALL).unwrap();
    let from_zero = b.pd.register(4096, Access { zero_based: true, ..Access::ALL }).unwrap();
    assert_eq!((at.remote().address, from_zero.remote().address), (0x1234_5000, 0));
    for region in [&at, &from_zero] {
        assert!(a.carry_out(Work::write(Data::Inline(&[b"here"]), region.remote().at(10))).is_success());
        assert_eq!(region.to_vec(10..14).unwrap(), b"here");
    }
    let mut foreign = vec![0_u8; 4096];
    let start = std::ptr::NonNull::new(foreign.as_mut_ptr()).unwrap();
    // SAFETY: the region is dropped before the vector, which is not touched meanwhile.
    let region = unsafe { b.pd.register_foreign(start, 4096, Access::ALL) }.unwrap();
    assert!(a.carry_out(Work::write(Data::Inline(&[b"foreign"]), region.remote().at(0))).is_success());
    drop(region);
    assert_eq!(&foreign[..7], b"foreign");
}

#[test]
fn copies_are_checked() {
    let (a, _b) = pair(QpType::Rc);
    let memory = &a.memory;
    let mut bytes = [0; 16];
    assert_eq!(
        memory.read(SIZE - 15, &mut bytes),
        Err(OutOfBounds { offset: SIZE - 15, length: 16, region: SIZE })
    );
    assert!(memory.read(SIZE - 16, &mut bytes).is_ok());
    assert!(memory.write(usize::MAX, &bytes).is_err());
    assert!(memory.slice(SIZE + 1..).is_err());
    assert!(memory.slice(SIZE..).is_ok_and(|slice| slice.len() == 0));
    #[expect(clippy::reversed_empty_ranges, reason = "callers may well do so")]
    let backwards = memory.slice(20..10);
    assert!(backwards.is_ok_and(|slice| slice.len() == 0));
    assert!(
        memory.load_u64(4).is_err() && memory.load_u64(SIZE).is_err() && memory.load_u64(SIZE - 8).is_ok()
    );

    let data: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
    memory.write(3, &data).unwrap();
    assert_eq!(memory.to_vec(3..200_003).unwrap(), data);
    memory.fill(100_000..180_000, 0xEE).unwrap();
    assert_eq!(memory.to_vec(99_999..180_001).unwrap()[1..80_001], vec![0xEE; 80_000]);
    assert_eq!(memory.to_vec(180_000..180_001).unwrap(), [data[179_997]]);
}

#[test]
fn parts_of_different_devices_do_not_mix() {
    let (a, b) = pair(QpType::Rc);
    let data = [b.memory.slice(..8).unwrap()];
    assert_eq!(a.qp.post(&Work::send(&data)), Err(PostError::UnknownHandle));
    assert_eq!(a.qp.receive(0, &data), Err(PostError::UnknownHandle));
    let window = b.pd.memory_window(MwType::Type1).unwrap();
    assert_eq!(a.qp.post(&Work::unbind(&window)), Err(PostError::UnknownHandle));
    let handle = b.pd.address_handle_to(&a.qp.endpoint(), 0).unwrap();
    let to = Work::send(Data::Inline(&[])).to(&handle, &a.qp.endpoint());
    assert_eq!(a.qp.post(&to), Err(PostError::UnknownHandle));
    let built = a.pd.queue_pair(QpType::Rc, &b.queue).build();
    assert_eq!(built.unwrap_err(), BuildError::Create(CreateError::UnknownHandle));
    assert_eq!(
        a.pd.queue_pair(QpType::Rc, &a.queue).gid_index(63).build().unwrap_err(),
        BuildError::NoGid(Some(63))
    );
}

#[test]
fn posting_together_stops_at_what_is_refused() {
    let (a, b) = pair(QpType::Rc);
    let long = [0_u8; 300];
    let good = Work::write(Data::Inline(&[b"x"]), b.memory.remote().at(0));
    let refused = a.qp.post_all(&[good.id(1), Work::send(Data::Inline(&[&long])), good.id(3)]);
    assert_eq!(refused, Err((1, PostError::InlineTooLong)));
    assert_eq!(a.wait().wr_id, 1);
    assert_eq!(a.queue.poll().unwrap(), None);
    let slices = [a.memory.slice(..1).unwrap(); 5];
    assert_eq!(a.qp.receive(0, &slices), Err(PostError::TooManySges));
}

#[test]
fn waiting_ends_in_time_and_wakes_in_time() {
    let (a, b) = pair(QpType::Rc);
    let start = Instant::now();
    assert!(matches!(a.queue.wait(Duration::from_millis(50)), Err(WaitError::TimedOut)));
    assert!(start.elapsed() >= Duration::from_millis(50));

    b.qp.receive(5, &[b.memory.slice(..64).unwrap()]).unwrap();
    let sleeper = std::thread::spawn({
        let queue = b.queue.clone();
        move || queue.wait(PATIENCE).unwrap()
    });
    std::thread::sleep(Duration::from_millis(30));
    assert!(!sleeper.is_finished());
    assert!(a.carry_out(Work::send(Data::Inline(&[b"wake up"]))).is_success());
    assert_eq!(sleeper.join().unwrap().wr_id, 5);
}

#[test]
fn descriptors_serve_event_loops() {
    let (a, b) = pair(QpType::Rc);
    let is_readable = |timeout: Duration| {
        let mut fd =
            libc::pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(&b.queue.as_fd()), events: 1, revents: 0 };
        // SAFETY: one descriptor, which stays open.
        unsafe { libc::poll(&mut fd, 1, timeout.as_millis() as i32) == 1 }
    };
    b.qp.receive(0, &[b.memory.slice(..64).unwrap()]).unwrap();
    b.qp.receive(1, &[b.memory.slice(..64).unwrap()]).unwrap();
    b.queue.arm(true).unwrap();
    assert!(a.carry_out(Work::send(Data::Inline(&[b"unsolicited"]))).is_success());
    assert!(!is_readable(Duration::from_millis(50)));
    assert!(a.carry_out(Work::send(Data::Inline(&[b"solicited"])).solicited()).is_success());
    assert!(is_readable(PATIENCE));
    assert!(b.queue.take_events().unwrap());
    assert!(!b.queue.take_events().unwrap() && !is_readable(Duration::ZERO));
    let mut completions = Vec::new();
    assert_eq!(b.queue.poll_into(&mut completions, 8).unwrap(), 2);
}

#[test]
fn a_channel_tells_whose_event_it_is() {
    let (a, b) = (Side::new(QpType::Rc), Side::new(QpType::Rc));
    let channel = b.pd.context().completion_channel().unwrap();
    let queues: Vec<_> = (0..2).map(|cookie| channel.completion_queue(16, cookie).unwrap()).collect();
    assert!(matches!(queues[0].wait(PATIENCE), Err(WaitError::OnChannel)));
    assert_eq!(channel.wait(Duration::from_millis(10)).unwrap(), None);
    for (cookie, queue) in queues.iter().enumerate() {
        let (source, target) = (&a.qp, b.pd.queue_pair(QpType::Rc, queue).build().unwrap());
        source.reset().unwrap();
        source.connect(&target.endpoint()).unwrap();
        target.connect(&source.endpoint()).unwrap();
        target.receive(0, &[]).unwrap();
        queue.arm(false).unwrap();
        assert!(a.carry_out(Work::send(Data::Inline(&[]))).is_success());
        let news = channel.wait(PATIENCE).unwrap().unwrap();
        assert_eq!((news.cookie, news.cq), (cookie as u64, queue.handle()));
        assert!(queue.poll().unwrap().is_some());
    }
}

#[test]
fn queues_have_their_sizes() {
    let context = open();
    let queue = context.completion_queue(10).unwrap();
    assert!(queue.resize(1000).unwrap() >= 1000);
    assert!(queue.resize(0).is_err());
    assert!(context.completion_queue(0).is_err());
    let limits = context.limits();
    assert!(context.completion_queue(limits.max_cqe + 1).is_err());

    let pd = context.protection_domain().unwrap();
    let sizes = QpCapabilities { max_send_wr: 2, max_recv_wr: 3, ..QpCapabilities::default() };
    let qp = pd.queue_pair(QpType::Rc, &queue).capabilities(sizes).build().unwrap();
    let granted = qp.capabilities();
    assert!(granted.max_send_wr >= 2 && granted.max_recv_wr >= 3);
    for _ in 0..granted.max_recv_wr {
        qp.receive(0, &[]).unwrap();
    }
    assert_eq!(qp.receive(0, &[]), Err(PostError::QueueFull));
    qp.fail().unwrap();
    for _ in 0..granted.max_recv_wr {
        assert_eq!(queue.poll().unwrap().unwrap().status, Status::WorkRequestFlushed);
    }
}

#[test]
fn contexts_tell_about_themselves() {
    let (a, b) = pair(QpType::Rc);
    let context = a.pd.context();
    assert_eq!(context.device().name(), "softverbs0");
    assert_eq!(context.port().state, PortState::Active);
    let loopback = Gid::from(std::net::Ipv4Addr::LOCALHOST);
    let index = context.gid_index(loopback).unwrap();
    assert!(context.gids().iter().any(|(found, entry)| (*found, entry.gid) == (index, loopback)));
    let before = (context.counters(), context.clock());
    assert!(a.carry_out(Work::write(Data::Inline(&[b"x"]), b.memory.remote().at(0))).is_success());
    assert!(context.counters().sent_packets > before.0.sent_packets && context.clock() > before.1);
    assert_eq!(context.link_counters().icrc_errors, 0);
}

#[test]
fn a_word_that_a_peer_writes_can_be_waited_for() {
    let (a, b) = pair(QpType::Rc);
    a.memory.store_u64(0, 42).unwrap();
    a.qp.post(&Work::write(&[a.memory.slice(..8).unwrap()], b.memory.remote().at(0))).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while b.memory.load_u64(0).unwrap() != 42 {
        b.pd.context().progress();
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn many_threads_use_one_queue_pair() {
    let (a, b) = pair(QpType::Rc);
    b.memory.store_u64(0, 0).unwrap();
    let word = b.memory.remote().at(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (a, into) = (&a, thread * 8);
            scope.spawn(move || {
                for _ in 0..100 {
                    let into = [a.memory.slice(into..into + 8).unwrap()];
                    a.qp.post(&Work::fetch_add(&into, word, 1)).unwrap();
                    assert!(a.wait().is_success());
                }
            });
        }
    });
    assert_eq!(b.memory.load_u64(0).unwrap(), 400);
}
