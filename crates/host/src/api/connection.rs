//! Connections by address and port, as programs that use RDMA CM make them.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nic::cm::{
    CmEvent, CmId, ConnectRequest, Endpoint, Listen, ListenAddress, ListenerId, Patience, RepParams,
    ReqParams,
};
use nic::verbs::{ModifyQpError, QpState, QpType};
use wire::cm::{IpCmHeader, PortSpace, RejReason, ServiceId, TransportService};

use super::context::{Context, pop_by};
use super::queue_pair::QueuePair;
use crate::channel::Channel;
use crate::cm::{CmNews, ConnectionManager, ManagerError, Port, PortError, Reporter, RouteError};

/// Takes connections to a port. Programs that use librdmacm, here or on other machines, reach it too.
///
/// ```
/// use std::time::Duration;
///
/// use host::{Access, Connection, Context, Data, Listener, ProtectionDomain, QpType, QueuePair, Work, devices};
///
/// type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// fn serve(pd: &ProtectionDomain, listener: &Listener) -> Result<Vec<u8>> {
///     let queue = pd.context().completion_queue(16)?;
///     let qp = pd.queue_pair(QpType::Rc, &queue).build()?;
///     let memory = pd.register(4096, Access::LOCAL)?;
///     qp.receive(0, &[memory.slice(..)?])?;
///     let incoming = listener.accept(PATIENCE)?.ok_or("nobody came")?;
///     assert_eq!(&incoming.private_data()[..5], b"knock");
///     let _connection = incoming.accept(&qp, b"come in", PATIENCE)?;
///     let received = queue.wait(PATIENCE)?;
///     Ok(memory.to_vec(..received.byte_length as usize)?)
/// }
///
/// # host::slot::start_in_child()?;
/// let server = Context::open(&devices()?[0])?.protection_domain()?;
/// let listener = Listener::bind(server.context(), "127.0.0.1:0".parse()?)?;
/// let address = listener.address();
/// let server = std::thread::spawn(move || serve(&server, &listener));
///
/// let pd = Context::open(&devices()?[0])?.protection_domain()?;
/// let queue = pd.context().completion_queue(16)?;
/// let qp = pd.queue_pair(QpType::Rc, &queue).build()?;
/// let connection = Connection::connect(&qp, address, b"knock", PATIENCE)?;
/// assert_eq!(&connection.private_data()[..7], b"come in");
/// qp.post(&Work::send(Data::Inline(&[b"good morning"])))?;
/// assert!(queue.wait(PATIENCE)?.is_success());
///
/// assert_eq!(server.join().unwrap()?, b"good morning");
/// // The server has dropped its end.
/// assert!(connection.wait_end(PATIENCE)?);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct Listener {
    manager: ConnectionManager,
    context: Context,
    ip: IpAddr,
    port: Port,
    id: ListenerId,
    news: Arc<Channel<CmNews>>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no way there.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The port is not to be had.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Connection management refused.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// The queue pair cannot be connected.
    #[error(transparent)]
    QueuePair(#[from] ModifyQpError),
    /// It is of a kind that is not connected, or of another device.
    #[error("the queue pair is of another device, or of a kind that is not connected")]
    UnfitQueuePair,
    /// The peer says no.
    #[error("the peer refused: {reason}")]
    Refused {
        /// Why.
        reason: RejReason,
        /// What its program says, with zeros at the end.
        private_data: Vec<u8>,
    },
    /// The peer does not answer, or went away while it connected.
    #[error("the peer does not answer")]
    Unreachable,
    /// It took too long.
    #[error("the connection did not come about in time")]
    TimedOut,
    /// The system refused something.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Listener {
    /// Listens at an address of this machine, or at all for a wildcard; port 0 is any that is free.
    pub fn bind(context: &Context, address: SocketAddr) -> Result<Self, ConnectError> {
        let manager = context.adapter().connection_manager()?;
        let listen_address = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => ListenAddress::AnyV4,
            IpAddr::V6(ip) if ip.is_unspecified() => ListenAddress::Any,
            ip => ListenAddress::Ip(ip),
        };
        let port = manager.reserve(PortSpace::TCP, listen_address, address.port(), false)?;
        let service = ServiceId::of_port(PortSpace::TCP, port.number());
        let news = news_channel()?;
        let listen = Listen { service, datagram: false, address: listen_address };
        let id = manager.listen(listen, 0, Reporter { sink: news.clone(), token: 0 })?;
        Ok(Self { manager, context: context.clone(), ip: address.ip(), port, id, news })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.number())
    }

    /// The next request, for which it waits at most so long; nothing if none came.
    pub fn accept(&self, timeout: Duration) -> Result<Option<Incoming>, ConnectError> {
        let deadline = Instant::now().checked_add(timeout);
        while let Some(news) = pop_by(&self.news, deadline)? {
            // What else is told here is about requests that nobody has looked at.
            if let CmEvent::Request(request) = news.event {
                let claim = Claim::adopt(self.manager.clone(), request.id)?;
                return Ok(Some(Incoming { claim, context: self.context.clone(), request }));
            }
        }
        Ok(None)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.manager.unlisten(self.id);
        while let Ok(Some(news)) = pop_by(&self.news, Some(Instant::now())) {
            if let CmEvent::Request(request) = news.event {
                let _ = self.manager.destroy(request.id);
            }
        }
    }
}

/// Somebody who wants to connect. Dropped, he is refused.
#[derive(Debug)]
pub struct Incoming {
    claim: Claim,
    context: Context,
    request: Box<ConnectRequest>,
}

impl Incoming {
    /// The address and port that it comes from.
    pub fn peer(&self) -> SocketAddr {
        let stated = self.request.addresses.map(|addresses| (addresses.source, addresses.source_port));
        SocketAddr::from(stated.unwrap_or((self.request.path.destination.ip(), 0)))
    }

    /// What its program says, with zeros at the end.
    pub fn private_data(&self) -> &[u8] {
        &self.request.private_data
    }

    /// Connects a queue pair to it, for which it waits at most so long.
    pub fn accept(
        self,
        queue_pair: &QueuePair,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Connection, ConnectError> {
        let deadline = Instant::now().checked_add(timeout);
        let transport = transport(queue_pair)?;
        if transport != self.request.transport || !queue_pair.context().is(&self.context) {
            return Err(ConnectError::UnfitQueuePair);
        }
        let Self { claim, .. } = self;
        claim.ready(queue_pair)?;
        let local = endpoint(queue_pair, Some(&self.request));
        claim.manager.accept(claim.id, &RepParams { local, private_data })?;
        match claim.next(deadline)? {
            CmEvent::Established { private_data, .. } => {
                Ok(Connection { claim, queue_pair: queue_pair.clone(), private_data, _port: None })
            }
            other => Err(failure(other)),
        }
    }

    /// Refuses it.
    pub fn reject(self, private_data: &[u8]) -> Result<(), ConnectError> {
        Ok(self.claim.manager.reject(self.claim.id, RejReason::CONSUMER, &[], private_data)?)
    }
}

/// A connection. It ends when this is dropped, and the peer is told.
#[derive(Debug)]
pub struct Connection {
    claim: Claim,
    queue_pair: QueuePair,
    private_data: Vec<u8>,
    _port: Option<Port>,
}

impl Connection {
    /// Connects a queue pair, for which it waits at most so long.
    pub fn connect(
        queue_pair: &QueuePair,
        address: SocketAddr,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let deadline = Instant::now().checked_add(timeout);
        let transport = transport(queue_pair)?;
        let manager = queue_pair.context().adapter().connection_manager()?;
        let scope = if let SocketAddr::V6(address) = address { address.scope_id() } else { 0 };
        let route = manager.resolve_route(address.ip(), scope, None)?;
        let port = manager.reserve(PortSpace::TCP, ListenAddress::Ip(route.source), 0, false)?;
        let news = news_channel()?;
        let params = ReqParams {
            path: route.path,
            service: ServiceId::of_port(PortSpace::TCP, address.port()),
            addresses: Some(IpCmHeader {
                source: route.source,
                source_port: port.number(),
                destination: address.ip(),
            }),
            transport,
            local: endpoint(queue_pair, None),
            retry_count: queue_pair.retry_count(),
            patience: Patience::default(),
            private_data,
        };
        let id = manager.connect(&params, Reporter { sink: news.clone(), token: 0 })?;
        let claim = Claim { manager, id, news };
        let reply = match claim.next(deadline)? {
            CmEvent::Reply(reply) => reply,
            other => return Err(failure(other)),
        };
        claim.ready(queue_pair)?;
        claim.manager.establish(claim.id, &[])?;
        let private_data = reply.private_data;
        Ok(Self { claim, queue_pair: queue_pair.clone(), private_data, _port: Some(port) })
    }

    /// The queue pair.
    pub fn queue_pair(&self) -> &QueuePair {
        &self.queue_pair
    }

    /// What the peer's program said when it connected, with zeros at the end.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Waits until the peer ends the connection, at most so long; whether it has.
    pub fn wait_end(&self, timeout: Duration) -> Result<bool, ConnectError> {
        let deadline = Instant::now().checked_add(timeout);
        while let Some(news) = pop_by(&self.claim.news, deadline)? {
            if matches!(news.event, CmEvent::Disconnected { .. }) {
                // Whoever waits for its completions shall not wait for ever.
                self.queue_pair.fail()?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A connection's name, given back when this is dropped.
struct Claim {
    manager: ConnectionManager,
    id: CmId,
    news: Arc<Channel<CmNews>>,
}

impl Claim {
    /// Of a request, whose news is told here from now on.
    fn adopt(manager: ConnectionManager, id: CmId) -> Result<Self, ConnectError> {
        let news = news_channel()?;
        manager.redirect(id, Reporter { sink: news.clone(), token: 0 })?;
        Ok(Self { manager, id, news })
    }

    fn next(&self, deadline: Option<Instant>) -> Result<CmEvent, ConnectError> {
        pop_by(&self.news, deadline)?.map(|news| news.event).ok_or(ConnectError::TimedOut)
    }

    /// Brings the queue pair, which is initialized, to where it can receive and send.
    fn ready(&self, queue_pair: &QueuePair) -> Result<(), ConnectError> {
        for state in [QpState::Rtr, QpState::Rts] {
            queue_pair.modify(&self.manager.qp_change(self.id, state)?)?;
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = self.manager.destroy(self.id);
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a queue pair brings, not more than the peer asks for.
fn endpoint(queue_pair: &QueuePair, request: Option<&ConnectRequest>) -> Endpoint {
    let depth = queue_pair.depth();
    Endpoint {
        qpn: queue_pair.number(),
        responder_resources: request.map_or(depth, |request| depth.min(request.remote.initiator_depth)),
        initiator_depth: request.map_or(depth, |request| depth.min(request.remote.responder_resources)),
        rnr_retry_count: queue_pair.rnr_retry(),
        ..Endpoint::default()
    }
}

fn transport(queue_pair: &QueuePair) -> Result<TransportService, ConnectError> {
    match queue_pair.kind() {
        QpType::Rc => Ok(TransportService::Rc),
        QpType::Uc => Ok(TransportService::Uc),
        _ => Err(ConnectError::UnfitQueuePair),
    }
}

/// What came instead of a connection.
fn failure(event: CmEvent) -> ConnectError {
    match event {
        CmEvent::Rejected { reason, private_data, .. } => ConnectError::Refused { reason, private_data },
        _ => ConnectError::Unreachable,
    }
}

/// A queue that nobody sleeps in by reading.
fn news_channel() -> io::Result<Arc<Channel<CmNews>>> {
    let channel = Channel::new()?;
    rustix::io::ioctl_fionbio(&channel, true)?;
    Ok(Arc::new(channel))
}
