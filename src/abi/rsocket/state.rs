//! What a socket has come to, and what moves it.

use std::{
    collections::VecDeque,
    ffi::c_int,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use host::{
    CompletionQueue, Context, ProtectionDomain, QpState,
    channel::Channel,
    cm::{CmNews, ConnectionManager, Port},
};
use nic::cm::{CmEvent, CmId, ConnectReply, ConnectRequest, Endpoint, ListenAddress, ListenerId};
use wire::cm::{PortSpace, RejReason};

use super::{
    link::Link,
    mapping::Mappings,
    settings::Settings,
    shared::{Progress, Waiting},
    wire::Introduction,
};
use crate::abi::errno::Errno;

/// What the lock of a socket protects.
#[derive(Debug)]
pub(super) struct Inner {
    /// Connection management tells of the socket here.
    pub news: Arc<Channel<CmNews>>,
    pub domain: c_int,
    pub phase: Phase,
    pub settings: Settings,
    pub options: Options,
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// An error that nobody was told of.
    pub error: Option<Errno>,
    pub mappings: Mappings,
    /// We go on to read, and to write.
    pub reads: bool,
    pub writes: bool,
    pub port: Option<Port>,
    pub waiting: Waiting,
}

/// Options of socket(7), tcp(7) and ipv6(7).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub reuse_address: bool,
    pub keep_alive: bool,
    pub no_delay: bool,
    pub out_of_band_inline: bool,
    pub one_family: bool,
    pub linger: Option<c_int>,
}

/// How far a socket has come.
#[derive(Debug)]
pub(super) enum Phase {
    Fresh,
    Bound,
    Listening {
        id: ListenerId,
        requests: VecDeque<ConnectRequest>,
    },
    Connecting {
        id: CmId,
        link: Box<Link>,
    },
    /// Of an accepted connection the peer's last word may be missing, which it says when it can receive.
    Connected {
        id: CmId,
        link: Box<Link>,
        is_established: bool,
    },
    /// It did not come to a connection.
    Failed,
}

/// The device, and what all sockets share of it.
pub(super) fn domain() -> Result<&'static (ProtectionDomain, ConnectionManager), Errno> {
    static DOMAIN: Mutex<Option<&'static (ProtectionDomain, ConnectionManager)>> = Mutex::new(None);
    let mut domain = DOMAIN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(domain) = *domain
        && !domain.1.adapter().is_lost()
    {
        return Ok(domain);
    }
    let device = host::Device::from_environment().map_err(|_| Errno(libc::ENODEV))?;
    let context = Context::open(&device)?;
    let manager = context.connection_manager()?;
    Ok(*domain.insert(Box::leak(Box::new((context.protection_domain()?, manager)))))
}

/// Retries of queue pairs, and those that peers make for us.
pub(super) const RETRIES: u8 = 7;

pub(super) fn endpoint(link: &Link) -> Endpoint {
    Endpoint {
        qpn: link.queue_pair.number(),
        flow_control: true,
        rnr_retry_count: RETRIES,
        ..Endpoint::default()
    }
}

/// Brings the queue pair of a connection to where it can receive and send.
pub(super) fn ready(manager: &ConnectionManager, id: CmId, link: &Link) -> Result<(), Errno> {
    for state in [QpState::Rtr, QpState::Rts] {
        link.queue_pair.modify(&manager.qp_change(id, state)?)?;
    }
    Ok(())
}

/// Concludes a connection that the peer accepted.
fn conclude(
    manager: &ConnectionManager,
    id: CmId,
    link: &mut Link,
    reply: &ConnectReply,
) -> Result<(), Errno> {
    let peer = Introduction::parse(&reply.private_data).ok_or(Errno(libc::ENOTSUP))?;
    ready(manager, id, link)?;
    link.meet(&peer);
    Ok(manager.establish(id, &[])?)
}

/// Where the wildcard leads as a destination: to this machine.
pub(super) fn reachable(destination: IpAddr) -> IpAddr {
    match destination {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        destination => destination,
    }
}

/// Which addresses a socket that is bound to `ip` stands for.
pub(super) fn listen_address(ip: IpAddr, one_family: bool) -> ListenAddress {
    match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => ListenAddress::AnyV4,
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) if one_family => ListenAddress::AnyV6,
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => ListenAddress::Any,
        ip => ListenAddress::Ip(ip),
    }
}

impl Inner {
    pub fn wildcard(&self) -> SocketAddr {
        match self.domain {
            libc::AF_INET6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
            _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
        }
    }

    pub fn bind(&mut self, address: SocketAddr) -> Result<(), Errno> {
        if !matches!(self.phase, Phase::Fresh) {
            return Err(Errno::INVALID);
        }
        let (pd, manager) = domain()?;
        let ip = address.ip();
        if !ip.is_unspecified() && pd.context().gid_index(ip.into()).is_none() {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        let listen = listen_address(ip, self.options.one_family);
        let port = manager.reserve(PortSpace::TCP, listen, address.port(), self.options.reuse_address)?;
        self.local = Some(SocketAddr::new(ip, port.number()));
        self.port = Some(port);
        self.phase = Phase::Bound;
        Ok(())
    }

    /// The link, if there is a connection or there was.
    pub fn link(&mut self) -> Option<&mut Link> {
        match &mut self.phase {
            Phase::Connected { link, .. } => Some(link),
            _ => None,
        }
    }

    /// The link, if data can be sent on it at all.
    pub fn sending_link(&mut self) -> Option<&mut Link> {
        match &mut self.phase {
            Phase::Connected { link, is_established: true, .. } => Some(link),
            _ => None,
        }
    }

    fn take_event(&mut self, event: CmEvent) {
        match (&mut self.phase, event) {
            (Phase::Listening { requests, .. }, CmEvent::Request(request)) => requests.push_back(*request),
            (Phase::Listening { requests, .. }, event) => {
                // The peer of a request that nobody took has gone.
                requests.retain(|request| request.id != event.id());
                let _ = domain().map(|domain| domain.1.destroy(event.id()));
            }
            (Phase::Connecting { .. }, CmEvent::Reply(reply)) => {
                if let Err(error) = self.conclude(&reply) {
                    self.fail(error);
                }
            }
            (Phase::Connecting { .. }, CmEvent::Rejected { .. }) => self.fail(Errno(libc::ECONNREFUSED)),
            (Phase::Connecting { .. }, _) => self.fail(Errno(libc::ETIMEDOUT)),
            (Phase::Connected { is_established, .. }, CmEvent::Established { .. }) => *is_established = true,
            (Phase::Connected { link, .. }, CmEvent::Disconnected { .. }) => {
                // What was sent before has arrived; what is not said any more is that the peer has ended.
                link.progress();
                link.end();
            }
            (Phase::Connected { link, .. }, CmEvent::Rejected { .. } | CmEvent::Unreachable { .. }) => {
                link.error.get_or_insert(Errno(libc::ECONNRESET));
            }
            _ => {}
        }
    }

    /// The peer accepted.
    fn conclude(&mut self, reply: &ConnectReply) -> Result<(), Errno> {
        let (_, manager) = domain()?;
        let Phase::Connecting { id, mut link } = std::mem::replace(&mut self.phase, Phase::Failed) else {
            return Ok(());
        };
        if let Err(error) = conclude(manager, id, &mut link, reply) {
            let _ = manager.reject(id, RejReason::CONSUMER, &[], &[]);
            let _ = manager.destroy(id);
            return Err(error);
        }
        self.phase = Phase::Connected { id, link, is_established: true };
        Ok(())
    }

    fn fail(&mut self, error: Errno) {
        self.error.get_or_insert(error);
        if let Phase::Connecting { id, .. } = std::mem::replace(&mut self.phase, Phase::Failed) {
            let _ = domain().map(|domain| domain.1.destroy(id));
        }
    }
}

impl Progress for Inner {
    fn progress(&mut self) {
        while let Ok(CmNews { event, .. }) = self.news.pop() {
            self.take_event(event);
        }
        if let Phase::Connected { link, .. } = &mut self.phase {
            link.progress();
            if let Some(error) = link.error {
                self.error.get_or_insert(error);
            }
        }
    }

    fn queue(&self) -> Option<&CompletionQueue> {
        match &self.phase {
            Phase::Connected { link, .. } => Some(&link.queue),
            _ => None,
        }
    }

    fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Ok((_, manager)) = domain() else { return };
        // What is unknown was lost in a fork, or with the service.
        match &self.phase {
            Phase::Listening { id, requests } => {
                let _ = manager.unlisten(*id);
                for request in requests {
                    let _ = manager.destroy(request.id);
                }
            }
            Phase::Connecting { id, .. } | Phase::Connected { id, .. } => {
                let _ = manager.destroy(*id);
            }
            Phase::Fresh | Phase::Bound | Phase::Failed => {}
        }
    }
}
