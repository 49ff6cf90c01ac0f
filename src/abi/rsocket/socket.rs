//! A stream socket: its life from `rsocket` to `rclose`.

use std::{collections::VecDeque, ffi::c_int, net::SocketAddr, ops::Deref, sync::Arc};

use host::{
    channel::Channel,
    cm::{CmNews, Reporter},
};
use nic::cm::{ConnectRequest, Listen, Patience, RepParams, ReqParams};
use wire::cm::{IpCmHeader, PortSpace, ServiceId, TransportService};

use super::{
    link::Link,
    mapping::Mappings,
    settings::Settings,
    shared::{Progress, Shared, Waiting},
    state::{Inner, Options, Phase, RETRIES, domain, endpoint, listen_address, reachable, ready},
    wire::{Introduction, Message},
};
use crate::abi::errno::Errno;

/// A stream socket. Its number is that of the descriptor by which connection management tells of it.
#[derive(Debug)]
pub(super) struct Socket(Shared<Inner, Arc<Channel<CmNews>>>);

impl Deref for Socket {
    type Target = Shared<Inner, Arc<Channel<CmNews>>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Socket {
    /// A socket that nothing was done with.
    pub fn new(domain: c_int) -> Result<Arc<Self>, Errno> {
        let news = Arc::new(Channel::new()?);
        news.set_nonblocking()?;
        let inner = Inner {
            news: news.clone(),
            domain,
            phase: Phase::Fresh,
            settings: Settings::of_machine(),
            options: Options::default(),
            local: None,
            peer: None,
            error: None,
            mappings: Mappings::default(),
            reads: true,
            writes: true,
            port: None,
            waiting: Waiting::default(),
        };
        Ok(Arc::new(Self(Shared::new(news, inner))))
    }

    // ---- verbs

    /// Gives it an address and a port.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Errno> {
        self.lock().bind(address)
    }

    /// Takes connections.
    pub fn listen(&self, backlog: u32) -> Result<(), Errno> {
        let mut inner = self.lock();
        if matches!(inner.phase, Phase::Fresh) {
            let address = inner.wildcard();
            inner.bind(address)?;
        }
        let (Phase::Bound, Some(local)) = (&inner.phase, inner.local) else { return Err(Errno::INVALID) };
        let listen = Listen {
            service: ServiceId::of_port(PortSpace::TCP, local.port()),
            datagram: false,
            address: listen_address(local.ip(), inner.options.one_family),
        };
        let id = domain()?.1.listen(listen, backlog, self.reporter())?;
        inner.phase = Phase::Listening { id, requests: VecDeque::new() };
        Ok(())
    }

    /// The next connection.
    pub fn accept(&self) -> Result<Arc<Self>, Errno> {
        let request = self.until(false, |inner| match &mut inner.phase {
            Phase::Listening { requests, .. } => requests.pop_front().map(Ok),
            _ => Some(Err(Errno::INVALID)),
        })?;
        let id = request.id;
        let accepted = self.take(request);
        if accepted.is_err() {
            // The peer is refused.
            let _ = domain()?.1.destroy(id);
        }
        accepted
    }

    fn take(&self, request: ConnectRequest) -> Result<Arc<Self>, Errno> {
        let (pd, manager) = domain()?;
        let peer = Introduction::parse(&request.private_data).ok_or(Errno(libc::ENOTSUP))?;
        let (domain, settings, options) = {
            let inner = self.lock();
            (inner.domain, inner.settings, inner.options)
        };
        let mut link = Box::new(Link::new(pd, &settings, request.path.source_gid_index)?);
        link.meet(&peer);
        let socket = Self::new(domain)?;
        manager.redirect(request.id, socket.reporter())?;
        ready(manager, request.id, &link)?;
        let introduction = link.introduction().emit();
        let local = endpoint(&link);
        manager.accept(request.id, &RepParams { local, private_data: &introduction })?;
        let mut inner = socket.lock();
        (inner.settings, inner.options) = (settings, options);
        let port = request.service.port().map_or(0, |(_, port)| port);
        inner.local = request.addresses.map(|addresses| SocketAddr::new(addresses.destination, port));
        inner.peer =
            request.addresses.map(|addresses| SocketAddr::new(addresses.source, addresses.source_port));
        inner.phase = Phase::Connected { id: request.id, link, is_established: false };
        drop(inner);
        Ok(socket)
    }

    /// Connects, and waits for that unless the socket shall not.
    pub fn connect(&self, address: SocketAddr) -> Result<(), Errno> {
        let mut inner = self.look();
        match inner.phase {
            Phase::Fresh | Phase::Bound => self.begin_connecting(&mut inner, address)?,
            Phase::Connecting { .. } if inner.waiting.is_nonblocking => return Err(Errno(libc::EALREADY)),
            Phase::Connecting { .. } | Phase::Failed => {}
            Phase::Connected { .. } => return Err(Errno(libc::EISCONN)),
            Phase::Listening { .. } => return Err(Errno::INVALID),
        }
        drop(inner);
        let connected = self.until(false, |inner| match &inner.phase {
            Phase::Connecting { .. } => None,
            Phase::Connected { .. } => Some(Ok(())),
            _ => Some(Err(inner.error.take().unwrap_or(Errno(libc::ECONNREFUSED)))),
        });
        connected.map_err(|error| if error.0 == libc::EAGAIN { Errno(libc::EINPROGRESS) } else { error })
    }

    fn begin_connecting(&self, inner: &mut Inner, address: SocketAddr) -> Result<(), Errno> {
        let (pd, manager) = domain()?;
        let address = SocketAddr::new(reachable(address.ip()), address.port());
        let scope = if let SocketAddr::V6(address) = address { address.scope_id() } else { 0 };
        let bound = inner.local.map(|local| local.ip());
        let route = manager.resolve_route(address.ip(), scope, bound)?;
        if inner.port.is_none() {
            inner.bind(SocketAddr::new(route.source, 0))?;
        }
        let port = inner.local.map_or(0, |local| local.port());
        inner.local = Some(SocketAddr::new(route.source, port));
        inner.peer = Some(address);
        let link = Box::new(Link::new(pd, &inner.settings, route.path.source_gid_index)?);
        let introduction = link.introduction().emit();
        let params = ReqParams {
            path: route.path,
            service: ServiceId::of_port(PortSpace::TCP, address.port()),
            addresses: Some(IpCmHeader {
                source: route.source,
                source_port: port,
                destination: address.ip(),
            }),
            transport: TransportService::Rc,
            local: endpoint(&link),
            retry_count: RETRIES,
            patience: Patience::default(),
            private_data: &introduction,
        };
        let id = manager.connect(&params, self.reporter())?;
        inner.phase = Phase::Connecting { id, link };
        Ok(())
    }

    /// Ends one or both directions, and waits until the peer has what was sent.
    pub fn shutdown(&self, reading: bool, writing: bool) -> Result<(), Errno> {
        let message = {
            let mut inner = self.look();
            if !matches!(inner.phase, Phase::Connected { .. }) {
                return Err(Errno(libc::ENOTCONN));
            }
            let (was_reading, was_writing) = (inner.reads, inner.writes);
            (inner.reads, inner.writes) = (was_reading && !reading, was_writing && !writing);
            match (inner.reads, inner.writes) {
                _ if !was_reading && !was_writing => None,
                (false, false) => Some(Message::Disconnect),
                (true, false) if was_writing => Some(Message::Shutdown),
                _ => None,
            }
        };
        let Some(message) = message else { return Ok(()) };
        self.wait_for_sending(|link| match link.peer_reads() {
            true => link.control(message).map(|sent| sent.then_some(())).transpose(),
            false => Some(Ok(())),
        })?;
        self.wait_for_sending(|link| link.is_idle().then_some(Ok(())))
    }

    /// Waits for something of the link, even on a socket that shall not wait.
    fn wait_for_sending(
        &self,
        mut attempt: impl FnMut(&mut Link) -> Option<Result<(), Errno>>,
    ) -> Result<(), Errno> {
        let mut inner = self.look();
        loop {
            let Phase::Connected { link, is_established, .. } = &mut inner.phase else { return Ok(()) };
            // Before the peer can receive, nothing is sent.
            if link.error.is_some() {
                return Ok(());
            }
            if *is_established && let Some(result) = attempt(link) {
                return result;
            }
            inner = self.sleep(inner)?;
            inner.progress();
        }
    }

    fn reporter(&self) -> Reporter {
        Reporter { sink: self.descriptor().clone(), token: 0 }
    }
}
