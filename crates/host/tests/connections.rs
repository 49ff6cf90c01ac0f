//! Connections between programs of one host, each with an adapter of its own.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::channel::Channel;
use host::cm::{CmNews, ConnectionManager, ManagerError, Port, PortError, Reporter};
use host::{Adapter, Config, Device};
use io::poll::{Interest, Poller};
use nic::cm::*;
use nic::verbs::*;
use wire::Qpn;
use wire::cm::{IpCmHeader, PortSpace, RejReason, ServiceId, SidrStatus, TransportService};

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that connects: an adapter, its connections, and one queue of their news.
struct Program {
    adapter: Adapter,
    cm: ConnectionManager,
    news: Arc<Channel<CmNews>>,
    pd: Pd,
    cq: Cq,
}

impl Program {
    fn new() -> Self {
        common::service();
        Self::on(Device::new(Config::default()).open().unwrap())
    }

    fn on(adapter: Adapter) -> Self {
        let cm = adapter.connection_manager().unwrap();
        let pd = adapter.alloc_pd().unwrap();
        let (cq, _) = adapter.create_cq(16, None).unwrap();
        Self { adapter, cm, news: Arc::new(Channel::new().unwrap()), pd, cq }
    }

    fn reporter(&self, token: u64) -> Reporter {
        Reporter { sink: self.news.clone(), token }
    }

    fn queue_pair(&self) -> Qpn {
        common::create_qp(&self.adapter, self.pd, self.cq, QpType::Rc)
    }

    fn reserve(&self, port: u16) -> Result<Port, PortError> {
        self.cm.reserve(PortSpace::TCP, ListenAddress::Ip(LOOPBACK), port, false)
    }

    /// Listens on any port.
    fn listen(&self, token: u64) -> (Port, ListenerId) {
        let port = self.reserve(0).unwrap();
        let listener = self.cm.listen(listen_at(port.number()), 0, self.reporter(token)).unwrap();
        (port, listener)
    }

    fn connect(&self, port: u16, qpn: Qpn, token: u64, private_data: &[u8]) -> CmId {
        self.connect_to(LOOPBACK, 0, port, qpn, token, private_data)
    }

    fn connect_to(
        &self,
        address: IpAddr,
        interface: u32,
        port: u16,
        qpn: Qpn,
        token: u64,
        private_data: &[u8],
    ) -> CmId {
        self.try_connect(address, interface, port, qpn, token, private_data).unwrap()
    }

    fn try_connect(
        &self,
        address: IpAddr,
        interface: u32,
        port: u16,
        qpn: Qpn,
        token: u64,
        private_data: &[u8],
    ) -> Result<CmId, ManagerError> {
        let route = self.cm.resolve_route(address, interface, None).unwrap();
        let addresses = IpCmHeader { source: route.source, source_port: 7, destination: address };
        let params = ReqParams {
            path: route.path,
            service: ServiceId::of_port(PortSpace::TCP, port),
            addresses: Some(addresses),
            transport: TransportService::Rc,
            local: endpoint(qpn),
            retry_count: 7,
            patience: Patience::default(),
            private_data,
        };
        self.cm.connect(&params, self.reporter(token))
    }

    fn modify(&self, id: CmId, qpn: Qpn, states: &[QpState]) {
        for &state in states {
            let change = self.cm.qp_change(id, state).unwrap();
            self.adapter.modify_qp(qpn, &change).unwrap();
        }
    }

    fn accept(&self, id: CmId) -> Qpn {
        let qpn = self.queue_pair();
        self.modify(id, qpn, &[QpState::Init, QpState::Rtr, QpState::Rts]);
        self.cm.accept(id, &RepParams { local: endpoint(qpn), private_data: b"welcome" }).unwrap();
        qpn
    }

    fn establish(&self, id: CmId, qpn: Qpn) {
        self.modify(id, qpn, &[QpState::Init, QpState::Rtr, QpState::Rts]);
        self.cm.establish(id, b"thanks").unwrap();
    }

    /// The next event, which must come soon.
    fn next(&self) -> CmNews {
        self.next_within(PATIENCE).expect("an event")
    }

    fn next_within(&self, patience: Duration) -> Option<CmNews> {
        let mut poller = Poller::new();
        poller.add(self.news.as_fd(), Interest::Readable);
        (poller.wait(Some(patience.as_nanos() as u64)).unwrap() > 0).then(|| self.news.pop().unwrap())
    }

    fn request(&self) -> Box<ConnectRequest> {
        match self.next().event {
            CmEvent::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn disconnected(&self, id: CmId) {
        assert_eq!(self.next().event, CmEvent::Disconnected { id });
    }

    /// Destroys, and waits until nothing lingers.
    fn settle(&self, ids: &[CmId]) {
        ids.iter().for_each(|&id| self.cm.destroy(id).unwrap());
        assert_eq!(self.cm.owned(), 0);
        let deadline = Instant::now() + PATIENCE;
        while self.cm.connections() > 0 {
            assert!(Instant::now() < deadline, "{} linger", self.cm.connections());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn listen_at(port: u16) -> Listen {
    let service = ServiceId::of_port(PortSpace::TCP, port);
    Listen { service, datagram: false, address: ListenAddress::Ip(LOOPBACK) }
}

fn endpoint(qpn: Qpn) -> Endpoint {
    Endpoint { qpn, responder_resources: 4, initiator_depth: 4, rnr_retry_count: 7, ..Endpoint::default() }
}

/// A connection between two programs: the listener's end and the other.
fn connected(server: &Program, client: &Program, port: u16) -> ((CmId, Qpn), (CmId, Qpn)) {
    let client_qp = client.queue_pair();
    let client_id = client.connect(port, client_qp, 1, b"hello");
    let request = server.request();
    let server_qp = server.accept(request.id);
    assert!(matches!(client.next().event, CmEvent::Reply(_)));
    client.establish(client_id, client_qp);
    assert!(matches!(server.next().event, CmEvent::Established { .. }));
    ((request.id, server_qp), (client_id, client_qp))
}

#[test]
fn connect_accept_and_disconnect() {
    let (server, client) = (Program::new(), Program::new());
    let (port, listener) = server.listen(77);
    let client_qp = client.queue_pair();
    let client_id = client.connect(port.number(), client_qp, 5, b"hello");

    let news = server.next();
    let CmEvent::Request(request) = news.event else { panic!("{news:?}") };
    assert_eq!((news.token, request.listener), (77, listener));
    assert_eq!(&request.private_data[..5], b"hello");
    assert_eq!(request.addresses.unwrap().source, LOOPBACK);
    server.cm.redirect(request.id, server.reporter(78)).unwrap();
    server.accept(request.id);

    let news = client.next();
    let CmEvent::Reply(reply) = news.event else { panic!("{news:?}") };
    assert_eq!((news.token, reply.id), (5, client_id));
    assert_eq!(&reply.private_data[..7], b"welcome");
    client.establish(client_id, client_qp);

    let news = server.next();
    let CmEvent::Established { id, private_data } = news.event else { panic!("{news:?}") };
    assert_eq!((news.token, id, &private_data[..6]), (78, request.id, &b"thanks"[..]));

    client.cm.disconnect(client_id, &[]).unwrap();
    server.disconnected(request.id);
    client.disconnected(client_id);
    server.cm.unlisten(listener).unwrap();
    server.settle(&[request.id]);
    client.settle(&[client_id]);
}

#[test]
fn a_refusal_tells_why() {
    let (server, client) = (Program::new(), Program::new());
    let (port, _) = server.listen(0);
    let id = client.connect(port.number(), Qpn::new(0x123), 5, &[]);
    let request = server.request();
    server.cm.reject(request.id, RejReason::CONSUMER, &[9], b"no").unwrap();
    let CmEvent::Rejected { id: rejected, reason, private_data, .. } = client.next().event else {
        panic!("no refusal")
    };
    assert_eq!((rejected, reason, &private_data[..2]), (id, RejReason::CONSUMER, &b"no"[..]));
    client.settle(&[id]);
    server.settle(&[request.id]);
}

#[test]
fn where_nobody_listens_the_host_says_so() {
    let client = Program::new();
    let id = client.connect(1, Qpn::new(0x123), 5, &[]);
    let asked = Instant::now();
    let CmEvent::Rejected { reason, .. } = client.next().event else { panic!("no refusal") };
    assert_eq!(reason, RejReason::INVALID_SERVICE_ID);
    assert!(asked.elapsed() < Duration::from_secs(2), "no retries are needed");
    client.settle(&[id]);
}

#[test]
fn a_killed_listener_leaves_nothing_behind() {
    let client = Program::new();
    let (mut to_parent, from_child) = std::os::unix::net::UnixStream::pair().unwrap();
    // SAFETY: the child only makes an adapter of its own, tells its port, accepts, and waits for its end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(to_parent);
        serve_until_killed(from_child);
    }
    drop(from_child);
    let mut port = [0; 2];
    std::io::Read::read_exact(&mut to_parent, &mut port).unwrap();
    let port = u16::from_le_bytes(port);

    let qpn = client.queue_pair();
    let id = client.connect(port, qpn, 1, &[]);
    assert!(matches!(client.next().event, CmEvent::Reply(_)));
    client.establish(id, qpn);
    // It has been told that we are ready when it tells us so.
    std::io::Read::read_exact(&mut to_parent, &mut [0; 1]).unwrap();
    // SAFETY: ends a child of ours.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    let killed = Instant::now();
    client.disconnected(id);
    assert!(killed.elapsed() < Duration::from_secs(5), "the host speaks for the dead");

    // Nobody listens any more, and the port is free.
    let again = client.connect(port, Qpn::new(9), 2, &[]);
    assert!(matches!(client.next().event, CmEvent::Rejected { .. }));
    client.reserve(port).unwrap();
    client.settle(&[id, again]);
}

/// The life of a child that listens, accepts one connection, and never ends by itself.
fn serve_until_killed(mut parent: std::os::unix::net::UnixStream) -> ! {
    use std::io::Write;
    let server = Program::new();
    let (port, _listener) = server.listen(0);
    parent.write_all(&port.number().to_le_bytes()).unwrap();
    let request = server.request();
    server.accept(request.id);
    assert!(matches!(server.next().event, CmEvent::Established { .. }));
    parent.write_all(&[1]).unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn a_hundred_clients_at_once() {
    const CLIENTS: u64 = 100;
    let (server, client) = (Program::new(), Program::new());
    let (port, listener) = server.listen(0);
    let ends: Vec<(CmId, Qpn)> = (0..CLIENTS)
        .map(|token| {
            let qpn = client.queue_pair();
            (client.connect(port.number(), qpn, token, &[]), qpn)
        })
        .collect();
    let requests: Vec<CmId> = (0..CLIENTS).map(|_| server.request().id).collect();
    for &id in &requests {
        server.accept(id);
    }
    for _ in 0..CLIENTS {
        let news = client.next();
        let (id, qpn) = ends[news.token as usize];
        assert_eq!(news.event.id(), id);
        client.establish(id, qpn);
    }
    for _ in 0..CLIENTS {
        assert!(matches!(server.next().event, CmEvent::Established { .. }));
    }
    ends.iter().for_each(|&(id, _)| client.cm.disconnect(id, &[]).unwrap());
    for _ in 0..CLIENTS {
        assert!(matches!(server.next().event, CmEvent::Disconnected { .. }));
        assert!(matches!(client.next().event, CmEvent::Disconnected { .. }));
    }
    server.cm.unlisten(listener).unwrap();
    server.settle(&requests);
    client.settle(&ends.iter().map(|&(id, _)| id).collect::<Vec<_>>());
    assert_eq!(server.cm.counters().retransmitted + client.cm.counters().retransmitted, 0);
}

#[test]
fn a_thousand_connections_one_after_another_leave_nothing() {
    let (server, client) = (Program::new(), Program::new());
    let (port, _) = server.listen(0);
    let begun = Instant::now();
    for _ in 0..1_000 {
        let source = client.reserve(0).unwrap();
        let (theirs, ours) = connected(&server, &client, port.number());
        client.cm.disconnect(ours.0, &[]).unwrap();
        server.disconnected(theirs.0);
        client.disconnected(ours.0);
        for (program, (id, qpn)) in [(&server, theirs), (&client, ours)] {
            program.cm.destroy(id).unwrap();
            program.adapter.destroy_qp(qpn).unwrap();
        }
        drop(source);
    }
    eprintln!("1000 connections, one at a time: {:?}", begun.elapsed());
    server.settle(&[]);
    client.settle(&[]);
}

#[test]
fn datagram_services_are_found() {
    let (server, client) = (Program::new(), Program::new());
    let address = ListenAddress::AnyV4;
    let port = server.cm.reserve(PortSpace::UDP, address, 0, false).unwrap();
    let service = ServiceId::of_port(PortSpace::UDP, port.number());
    let listen = Listen { service, datagram: true, address };
    server.cm.listen(listen, 0, server.reporter(1)).unwrap();

    let ask = |service, destination| {
        let route = client.cm.resolve_route(LOOPBACK, 0, None).unwrap();
        let addresses = Some(IpCmHeader { source: route.source, source_port: 1, destination });
        let patience = Patience::default();
        let params = SidrParams { path: route.path, service, addresses, patience, private_data: b"who" };
        client.cm.resolve(&params, client.reporter(3)).unwrap()
    };
    let id = ask(service, LOOPBACK);
    let CmEvent::SidrRequest(request) = server.next().event else { panic!("no question") };
    assert_eq!(&request.private_data[..3], b"who");
    server.cm.answer(request.id, Ok((Qpn::new(0x777), 42)), b"me").unwrap();
    let CmEvent::SidrReply(reply) = client.next().event else { panic!("no answer") };
    assert_eq!((reply.id, reply.status, reply.qpn, reply.qkey), (id, SidrStatus::VALID, Qpn::new(0x777), 42));
    assert_eq!(&reply.private_data[..2], b"me");

    let nobody = ask(ServiceId::of_port(PortSpace::UDP, port.number() ^ 1), LOOPBACK);
    let CmEvent::SidrReply(reply) = client.next().event else { panic!("no answer") };
    assert_eq!((reply.id, reply.status), (nobody, SidrStatus::UNSUPPORTED));
    client.settle(&[id, nobody]);
    server.settle(&[request.id]);
}

#[test]
fn ports_are_those_of_the_host() {
    let (one, other) = (Program::new(), Program::new());
    let port = one.reserve(0).unwrap();
    assert!(port.number() >= 1024);
    let number = port.number();
    assert!(matches!(other.reserve(number), Err(PortError::InUse)));
    let wildcard = other.cm.reserve(PortSpace::TCP, ListenAddress::Any, number, true);
    assert!(matches!(wildcard, Err(PortError::InUse)));
    // Another space, and another family, are others' ports.
    drop(other.cm.reserve(PortSpace::UDP, ListenAddress::Any, number, false).unwrap());
    drop(other.cm.reserve(PortSpace::TCP, ListenAddress::AnyV6, number, false).unwrap());
    // Who has not reserved a port does not listen there.
    assert!(other.cm.listen(listen_at(number), 0, other.reporter(0)).is_err());
    drop(port);
    let port = other.reserve(number).unwrap();
    drop(other);
    // The port outlives its program's other handles, for it keeps the adapter open.
    assert!(matches!(one.reserve(number), Err(PortError::InUse)));
    drop(port);
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = one.reserve(number) {
        assert!(matches!(error, PortError::InUse) && Instant::now() < deadline, "{error}");
    }
}

#[test]
fn shared_ports_have_one_listener() {
    let (one, other) = (Program::new(), Program::new());
    let share = |program: &Program, port| {
        program.cm.reserve(PortSpace::TCP, ListenAddress::Ip(LOOPBACK), port, true).unwrap()
    };
    let port = share(&one, 0);
    let _same = share(&other, port.number());
    let first = one.cm.listen(listen_at(port.number()), 0, one.reporter(0)).unwrap();
    assert!(other.cm.listen(listen_at(port.number()), 0, other.reporter(0)).is_err());
    one.cm.unlisten(first).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while other.cm.listen(listen_at(port.number()), 0, other.reporter(0)).is_err() {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn the_closest_listener_is_asked() {
    let (server, client) = (Program::new(), Program::new());
    let any = server.cm.reserve(PortSpace::TCP, ListenAddress::Any, 0, true).unwrap();
    let exact = ListenAddress::Ip(LOOPBACK);
    let _exact = server.cm.reserve(PortSpace::TCP, exact, any.number(), true).unwrap();
    let listen = |address, token| {
        let listen = Listen { address, ..listen_at(any.number()) };
        server.cm.listen(listen, 0, server.reporter(token)).unwrap()
    };
    listen(ListenAddress::Any, 1);
    let exact = listen(exact, 2);
    client.connect(any.number(), Qpn::new(5), 0, &[]);
    assert_eq!(server.next().token, 2);
    server.cm.unlisten(exact).unwrap();
    client.connect(any.number(), Qpn::new(6), 0, &[]);
    assert_eq!(server.next().token, 1);
}

#[test]
fn an_end_of_a_program_that_was_not_announced_is_told_to_peers() {
    let (server, client) = (Program::new(), Program::new());
    let (port, _) = server.listen(0);
    let (theirs, ours) = connected(&server, &client, port.number());
    drop((server, port));
    client.disconnected(ours.0);
    assert_ne!(theirs.0, ours.0);
}

#[test]
fn traffic_tells_that_the_peer_is_ready() {
    let (server, client) = (Program::new(), Program::new());
    let (port, _) = server.listen(0);
    let client_qp = client.queue_pair();
    let client_id = client.connect(port.number(), client_qp, 1, &[]);
    let request = server.request();
    // Not ready to send: that is for when the peer is known to be ready.
    let server_qp = server.queue_pair();
    server.modify(request.id, server_qp, &[QpState::Init, QpState::Rtr]);
    server.cm.accept(request.id, &RepParams { local: endpoint(server_qp), private_data: &[] }).unwrap();
    assert!(matches!(client.next().event, CmEvent::Reply(_)));
    // The peer's queue pair is ready and sends, but no RTU leaves.
    client.modify(client_id, client_qp, &[QpState::Init, QpState::Rtr, QpState::Rts]);
    let request_send = SendRequest {
        wr_id: 1,
        operation: SendOperation::Send,
        data: SendData::Gather(&[]),
        flags: SendFlags::default(),
        destination: None,
    };
    client.adapter.post(|poster| poster.send(client_qp, &request_send)).unwrap();
    let CmEvent::Established { id, private_data } = server.next().event else { panic!("no news") };
    assert_eq!((id, private_data.len()), (request.id, 0));
}

#[test]
fn without_the_service_nobody_waits_in_vain() {
    // A service that ends while it is used is one that was killed: here a child's, in a namespace of its own.
    // SAFETY: moves this thread, and what it starts, into a new network namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        eprintln!("not run: it needs a network namespace of its own");
        return;
    }
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    assert!(up.unwrap().success());
    // SAFETY: the child only serves, until it is killed.
    let service = unsafe { libc::fork() };
    if service == 0 {
        let _ = host::slot::serve(true);
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let deadline = Instant::now() + PATIENCE;
    let adapter = loop {
        match Device::new(Config::default()).open() {
            Ok(adapter) => break adapter,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let program = Program::on(adapter);
    let port = program.reserve(0).unwrap();
    // SAFETY: ends a child of ours.
    unsafe {
        libc::kill(service, libc::SIGKILL);
        libc::waitpid(service, std::ptr::null_mut(), 0);
    }
    assert!(matches!(program.reserve(0), Err(PortError::Service(_))));
    let listened = program.cm.listen(listen_at(port.number()), 0, program.reporter(0));
    assert!(matches!(listened, Err(ManagerError::Service(_))));
    let deadline = Instant::now() + PATIENCE;
    while program.try_connect(LOOPBACK, 0, 1, Qpn::new(5), 0, &[]).is_ok() {
        assert!(Instant::now() < deadline, "the end of the service is noticed");
    }
}

#[test]
fn a_child_that_opens_its_own_adapter_connects_beside_its_parent() {
    let parent = Program::new();
    let (port, _) = parent.listen(0);
    // SAFETY: the child uses an adapter of its own, and exits at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let result = std::panic::catch_unwind(|| {
            let program = Program::new();
            let qpn = program.queue_pair();
            let id = program.connect(port.number(), qpn, 0, &[]);
            assert!(matches!(program.next().event, CmEvent::Reply(_)));
            program.establish(id, qpn);
            program.cm.disconnect(id, &[]).unwrap();
            program.disconnected(id);
        });
        // SAFETY: ends the child without its parent's exit handlers.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    let request = parent.request();
    parent.accept(request.id);
    assert!(matches!(parent.next().event, CmEvent::Established { .. }));
    parent.disconnected(request.id);
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    // The port is still the parent's.
    let other = Program::new();
    assert!(matches!(other.reserve(port.number()), Err(PortError::InUse)));
}

#[test]
fn link_local_addresses_need_their_interface() {
    let (server, client) = (Program::new(), Program::new());
    // SAFETY: reads an index by a name that ends in zero.
    let interface = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
    let local: IpAddr = "fe80::77".parse().unwrap();
    for address in ["fe80::77/64", "fd00::77/64"] {
        let added =
            std::process::Command::new("ip").args(["addr", "add", address, "dev", "lo", "nodad"]).status();
        assert!(added.unwrap().success(), "IPv6 addresses can be added");
    }
    let wanted = [local, "fd00::77".parse().unwrap()].map(wire::Gid::from);
    let deadline = Instant::now() + PATIENCE;
    for program in [&server, &client] {
        let has = |gid| (0..64).any(|index| program.adapter.gid(index).is_some_and(|entry| entry.gid == gid));
        while !wanted.iter().all(|&gid| has(gid)) {
            assert!(Instant::now() < deadline, "the addresses come into the GID table");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let port = server.cm.reserve(PortSpace::TCP, ListenAddress::Any, 0, false).unwrap();
    let listen = Listen { address: ListenAddress::Any, ..listen_at(port.number()) };
    server.cm.listen(listen, 0, server.reporter(0)).unwrap();
    for (address, interface) in [(local, interface), ("fd00::77".parse().unwrap(), 0), (LOOPBACK, 0)] {
        let qpn = client.queue_pair();
        let id = client.connect_to(address, interface, port.number(), qpn, 0, &[]);
        let request = server.request();
        assert_eq!(request.addresses.unwrap().destination, address);
        server.accept(request.id);
        assert!(matches!(client.next().event, CmEvent::Reply(_)), "{address}");
        client.establish(id, qpn);
        assert!(matches!(server.next().event, CmEvent::Established { .. }));
    }
}

#[test]
fn one_manager_for_all_who_ask() {
    let program = Program::new();
    let again = program.adapter.connection_manager().unwrap();
    let (port, _listener) = program.listen(4);
    let client = Program::new();
    client.connect(port.number(), Qpn::new(5), 0, &[]);
    let request = program.request();
    assert_eq!(again.state(request.id), Some(State::ReqRcvd));
    again.destroy(request.id).unwrap();
    assert!(matches!(client.next().event, CmEvent::Rejected { .. }));
}

#[test]
fn where_there_is_no_way_nobody_is_asked() {
    let program = Program::new();
    let resolve = |address: &str, source: Option<&str>| {
        program.cm.resolve_route(address.parse().unwrap(), 0, source.map(|ip| ip.parse().unwrap()))
    };
    let route = resolve("127.0.0.1", None).unwrap();
    assert_eq!((route.source, route.path.mtu), (LOOPBACK, Mtu::Mtu4096));
    assert!(resolve("127.0.0.1", Some("0.0.0.0")).is_ok());
    assert!(resolve("127.0.0.1", Some("10.99.99.99")).is_err());
    assert!(resolve("127.0.0.1", Some("::1")).is_err());
}

#[test]
fn a_child_that_goes_on_has_the_listener() {
    let server = Program::new();
    let (port, _) = server.listen(0);
    let (mut to_child, from_parent) = std::os::unix::net::UnixStream::pair().unwrap();
    // The life of a daemon: the parent listens, forks and goes; the child serves.
    // SAFETY: this child forks again and exits, as daemons do.
    let parent = unsafe { libc::fork() };
    if parent == 0 {
        // SAFETY: the grandchild uses the adapter, which is made to survive this, and exits.
        if unsafe { libc::fork() } == 0 {
            let result = std::panic::catch_unwind(|| {
                // What it calls first makes the adapter its own.
                assert_eq!(server.cm.owned(), 0);
                std::io::Write::write_all(&mut &from_parent, &[1]).unwrap();
                let request = server.request();
                server.accept(request.id);
                assert!(matches!(server.next().event, CmEvent::Established { .. }));
                server.disconnected(request.id);
            });
            std::io::Write::write_all(&mut &from_parent, &[u8::from(result.is_ok())]).unwrap();
        }
        // SAFETY: ends a child without its parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    let mut ready = [0; 1];
    std::io::Read::read_exact(&mut to_child, &mut ready).unwrap();
    let client = Program::new();
    let qpn = client.queue_pair();
    let id = client.connect(port.number(), qpn, 0, &[]);
    assert!(matches!(client.next().event, CmEvent::Reply(_)));
    client.establish(id, qpn);
    client.cm.disconnect(id, &[]).unwrap();
    client.disconnected(id);
    std::io::Read::read_exact(&mut to_child, &mut ready).unwrap();
    assert_eq!(ready, [1]);
    // SAFETY: a child of ours.
    unsafe { libc::waitpid(parent, std::ptr::null_mut(), 0) };
    // Here the adapter is cut off.
    assert!(server.reserve(0).is_err());
}

#[test]
fn a_program_that_looks_away_does_not_hold_up_the_others() {
    const REQUESTS: u64 = 3_000;
    let (sleeper, server, client) = (Program::new(), Program::new(), Program::new());
    let (ignored, _) = sleeper.listen(0);
    let (port, _) = server.listen(0);
    // More than its backlog: what exceeds that is dropped, and asked again.
    let flood: Vec<CmId> =
        (0..REQUESTS).map(|token| client.connect(ignored.number(), Qpn::new(9), token, &[])).collect();
    let other = Program::new();
    let qpn = other.queue_pair();
    let id = other.connect(port.number(), qpn, 0, &[]);
    let request = server.request();
    server.accept(request.id);
    assert!(matches!(other.next().event, CmEvent::Reply(_)));
    other.establish(id, qpn);
    assert!(matches!(server.next().event, CmEvent::Established { .. }));
    assert!(sleeper.cm.owned() < REQUESTS as usize, "the backlog is bounded");
    client.settle(&flood);
}
