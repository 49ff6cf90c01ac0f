//! Queue pairs: making, connecting and using them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use nic::verbs::{
    Access, CreateError, ModifyQpError, Mtu, MulticastError, PostError, QpAttributes, QpCapabilities,
    QpChange, QpInit, QpState, QpType,
};
use wire::{Gid, Psn, Qpn};

use super::completion::CompletionQueue;
use super::context::Context;
use super::domain::{ProtectionDomain, path_to};
use super::endpoint::QpEndpoint;
use super::region::RegionSlice;
use super::shared_receive::SharedReceiveQueue;
use super::work::{Receive, Work};

/// A queue pair. Clones are the same one.
///
/// Two programs that have a TCP connection connect their queue pairs over it:
///
/// ```
/// use std::net::{TcpListener, TcpStream};
/// use std::time::Duration;
///
/// use host::{Access, Context, Data, QpType, Work, devices, exchange};
///
/// type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
///
/// fn receive_greeting(stream: &TcpStream) -> Result<Vec<u8>> {
///     let pd = Context::open(&devices()?[0])?.protection_domain()?;
///     let queue = pd.context().completion_queue(16)?;
///     let qp = pd.queue_pair(QpType::Rc, &queue).build()?;
///     let memory = pd.register(4096, Access::LOCAL)?;
///     // Receives are posted before the peer can send.
///     qp.receive(0, &[memory.slice(..)?])?;
///     qp.connect(&exchange(stream, &qp.endpoint())?)?;
///     let received = queue.wait(Duration::from_secs(10))?;
///     Ok(memory.to_vec(..received.byte_length as usize)?)
/// }
///
/// fn send_greeting(stream: &TcpStream) -> Result<()> {
///     let pd = Context::open(&devices()?[0])?.protection_domain()?;
///     let queue = pd.context().completion_queue(16)?;
///     let qp = pd.queue_pair(QpType::Rc, &queue).build()?;
///     qp.connect(&exchange(stream, &qp.endpoint())?)?;
///     qp.post(&Work::send(Data::Inline(&[b"good morning"])))?;
///     assert!(queue.wait(Duration::from_secs(10))?.is_success());
///     Ok(())
/// }
///
/// # host::slot::start_in_child()?;
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let sender = std::thread::spawn(move || send_greeting(&TcpStream::connect(address)?));
/// assert_eq!(receive_greeting(&listener.accept()?.0)?, b"good morning");
/// sender.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug)]
pub struct QueuePair {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pd: ProtectionDomain,
    /// Everything it refers to stays for as long as it does.
    _send_queue: CompletionQueue,
    _receive_queue: CompletionQueue,
    _shared: Option<SharedReceiveQueue>,
    qpn: Qpn,
    qp_type: QpType,
    capabilities: QpCapabilities,
    settings: Settings,
    psn: Psn,
    groups: Mutex<Vec<Gid>>,
}

/// A queue pair to be made. What is not said has the value given with each method.
#[derive(Clone, Debug)]
pub struct QueuePairBuilder {
    pd: ProtectionDomain,
    qp_type: QpType,
    send_queue: CompletionQueue,
    receive_queue: CompletionQueue,
    shared: Option<SharedReceiveQueue>,
    capabilities: QpCapabilities,
    signal_all: bool,
    gid_index: Option<u8>,
    settings: Settings,
}

/// What a connection is made with.
#[derive(Clone, Copy, Debug)]
struct Settings {
    gid_index: u8,
    gid: Gid,
    access: Access,
    mtu: Mtu,
    qkey: u32,
    timeout: u8,
    retry_count: u8,
    rnr_retry: u8,
    min_rnr_timer: u8,
    depth: u8,
    traffic_class: u8,
    hop_limit: u8,
}

/// Why a queue pair was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The adapter refused to make it.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// One of the settings is out of its range.
    #[error(transparent)]
    Setting(#[from] ModifyQpError),
    /// There is no address by which peers could reach it.
    #[error("the GID table has no entry{}", .0.map(|index| format!(" {index}")).unwrap_or_default())]
    NoGid(Option<u8>),
}

impl QueuePairBuilder {
    pub(super) fn new(pd: ProtectionDomain, qp_type: QpType, queue: CompletionQueue) -> Self {
        let access =
            Access { remote_write: true, remote_read: true, remote_atomic: true, ..Access::default() };
        let depth = pd.context().limits().max_qp_rd_atom.min(16);
        Self {
            pd,
            qp_type,
            send_queue: queue.clone(),
            receive_queue: queue,
            shared: None,
            capabilities: QpCapabilities {
                max_send_wr: 128,
                max_recv_wr: 128,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline_data: 256,
            },
            signal_all: false,
            gid_index: None,
            settings: Settings {
                gid_index: 0,
                gid: Gid::UNSPECIFIED,
                access,
                mtu: Mtu::Mtu4096,
                qkey: 0x1111_1111,
                timeout: 14,
                retry_count: 7,
                rnr_retry: 7,
                min_rnr_timer: 12,
                depth,
                traffic_class: 0,
                hop_limit: 64,
            },
        }
    }

    /// Where its receives complete: where its sends do.
    #[must_use]
    pub fn receive_queue(mut self, queue: &CompletionQueue) -> Self {
        self.receive_queue = queue.clone();
        self
    }

    /// Takes its receives from there: from a queue of its own.
    #[must_use]
    pub fn shared_receive_queue(mut self, shared: &SharedReceiveQueue) -> Self {
        self.shared = Some(shared.clone());
        self
    }

    /// The sizes of its queues: 128 requests of 4 elements, and 256 bytes of inline data.
    #[must_use]
    pub fn capabilities(mut self, capabilities: QpCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Whether even unsignaled requests complete: no.
    #[must_use]
    pub fn signal_all(mut self, signal_all: bool) -> Self {
        self.signal_all = signal_all;
        self
    }

    /// Its address, as an index of the GID table: the first entry.
    #[must_use]
    pub fn gid_index(mut self, index: u8) -> Self {
        self.gid_index = Some(index);
        self
    }

    /// What its peer may do to regions that allow it: write, read, atomics.
    #[must_use]
    pub fn peer_access(mut self, access: Access) -> Self {
        self.settings.access = access;
        self
    }

    /// The largest path MTU: 4096. The peer's and the route's count as well.
    #[must_use]
    pub fn mtu(mut self, mtu: Mtu) -> Self {
        self.settings.mtu = mtu;
        self
    }

    /// Its key for datagrams.
    #[must_use]
    pub fn qkey(mut self, qkey: u32) -> Self {
        self.settings.qkey = qkey;
        self
    }

    /// How a lost packet is noticed: 4.096 us times two to the power of `timeout` without an answer (14,
    /// which is 67 ms), and so many times (7).
    #[must_use]
    pub fn retries(mut self, timeout: u8, count: u8) -> Self {
        (self.settings.timeout, self.settings.retry_count) = (timeout, count);
        self
    }

    /// How a message without a receive is repeated: so many times, or for ever if 7 (7), and after the delay
    /// of a code that the receiver sets (12, which is 0.64 ms).
    #[must_use]
    pub fn receiver_not_ready(mut self, retries: u8, delay_code: u8) -> Self {
        (self.settings.rnr_retry, self.settings.min_rnr_timer) = (retries, delay_code);
        self
    }

    /// How many reads and atomics are under way at once, each way: 16.
    #[must_use]
    pub fn read_depth(mut self, depth: u8) -> Self {
        self.settings.depth = depth;
        self
    }

    /// DSCP and ECN bits, and hop limit: 0 and 64.
    #[must_use]
    pub fn traffic(mut self, class: u8, hop_limit: u8) -> Self {
        (self.settings.traffic_class, self.settings.hop_limit) = (class, hop_limit);
        self
    }

    /// Makes it. It can be told to peers and take receives, but not send before it is connected.
    pub fn build(self) -> Result<QueuePair, BuildError> {
        let (gid_index, gid) = self.address()?;
        let context = self.pd.context();
        let parts = [self.send_queue.context(), self.receive_queue.context()];
        let shared = self.shared.as_ref().map(SharedReceiveQueue::context);
        if parts.into_iter().chain(shared).any(|part| !part.is(context)) {
            return Err(CreateError::UnknownHandle.into());
        }
        let (qpn, capabilities) = context.adapter().create_qp(&QpInit {
            pd: self.pd.handle(),
            qp_type: self.qp_type,
            send_cq: self.send_queue.handle(),
            recv_cq: self.receive_queue.handle(),
            srq: self.shared.as_ref().map(SharedReceiveQueue::handle),
            capabilities: self.capabilities,
            signal_all: self.signal_all,
        })?;
        let queue_pair = QueuePair {
            inner: Arc::new(Inner {
                pd: self.pd,
                _send_queue: self.send_queue,
                _receive_queue: self.receive_queue,
                _shared: self.shared,
                qpn,
                qp_type: self.qp_type,
                capabilities,
                settings: Settings { gid_index, gid, ..self.settings },
                psn: random_psn(),
                groups: Mutex::default(),
            }),
        };
        queue_pair.initialize()?;
        Ok(queue_pair)
    }

    fn address(&self) -> Result<(u8, Gid), BuildError> {
        let gids = self.pd.context().gids();
        let mut gids = gids.iter();
        let found = match self.gid_index {
            Some(wanted) => gids.find(|(index, _)| *index == wanted),
            None => gids.next(),
        };
        found.map(|&(index, entry)| (index, entry.gid)).ok_or(BuildError::NoGid(self.gid_index))
    }
}

/// Somewhere in the sequence space, so that stale packets of an earlier connection find nothing.
fn random_psn() -> Psn {
    Psn::new(RandomState::new().build_hasher().finish() as u32)
}

impl QueuePair {
    /// Its number.
    pub fn number(&self) -> Qpn {
        self.inner.qpn
    }

    /// The sizes of its queues.
    pub fn capabilities(&self) -> QpCapabilities {
        self.inner.capabilities
    }

    /// What a peer needs to connect to it, or to send it datagrams.
    pub fn endpoint(&self) -> QpEndpoint {
        let Settings { gid, mtu, qkey, .. } = self.inner.settings;
        QpEndpoint { gid, qpn: self.inner.qpn, psn: self.inner.psn, mtu, qkey }
    }

    /// Connects it to a peer that connects to it in turn. Until then, neither can send.
    pub fn connect(&self, peer: &QpEndpoint) -> Result<(), ModifyQpError> {
        let settings = &self.inner.settings;
        let is_reliable = self.inner.qp_type == QpType::Rc;
        let mut path = path_to(peer, settings.gid_index);
        (path.traffic_class, path.hop_limit) = (settings.traffic_class, settings.hop_limit);
        let connected = self.inner.qp_type != QpType::Ud;
        self.modify(&QpChange {
            state: Some(QpState::Rtr),
            path: connected.then_some(path),
            path_mtu: connected.then_some(settings.mtu.min(peer.mtu)),
            dest_qp: connected.then_some(peer.qpn),
            rq_psn: connected.then_some(peer.psn),
            max_dest_rd_atomic: is_reliable.then_some(settings.depth),
            min_rnr_timer: is_reliable.then_some(settings.min_rnr_timer),
            ..QpChange::default()
        })?;
        self.modify(&QpChange {
            state: Some(QpState::Rts),
            sq_psn: Some(self.inner.psn),
            timeout: is_reliable.then_some(settings.timeout),
            retry_count: is_reliable.then_some(settings.retry_count),
            rnr_retry: is_reliable.then_some(settings.rnr_retry),
            max_rd_atomic: is_reliable.then_some(settings.depth),
            ..QpChange::default()
        })
    }

    /// Makes a datagram queue pair ready to send; it has no peer to connect to.
    pub fn activate(&self) -> Result<(), ModifyQpError> {
        match self.inner.qp_type {
            QpType::Ud => self.connect(&self.endpoint()),
            QpType::Rc | QpType::Uc => Err(ModifyQpError::MissingAttribute("dest_qp")),
        }
    }

    /// Posts a request.
    pub fn post(&self, work: &Work<'_>) -> Result<(), PostError> {
        work.as_request(self.context(), |request| {
            self.inner.pd.adapter().post(|poster| poster.send(self.inner.qpn, request))
        })
    }

    /// Posts requests together, which is faster. If one is refused, those before it were posted, and the
    /// error tells its index.
    pub fn post_all(&self, requests: &[Work<'_>]) -> Result<(), (usize, PostError)> {
        self.inner.pd.adapter().post(|poster| {
            requests.iter().enumerate().try_for_each(|(index, work)| {
                work.as_request(self.context(), |request| poster.send(self.inner.qpn, request))
                    .map_err(|error| (index, error))
            })
        })
    }

    /// Posts a receive: what arrives goes to `scatter`, and the completion bears `wr_id`.
    pub fn receive(&self, wr_id: u64, scatter: &[RegionSlice<'_>]) -> Result<(), PostError> {
        self.receive_all(&[Receive { wr_id, scatter }]).map_err(|(_, error)| error)
    }

    /// Posts receives together, as [`post_all`](Self::post_all) does requests.
    pub fn receive_all(&self, requests: &[Receive<'_>]) -> Result<(), (usize, PostError)> {
        self.inner.pd.adapter().post(|poster| {
            requests.iter().enumerate().try_for_each(|(index, receive)| {
                receive
                    .as_request(self.context(), |request| poster.recv(self.inner.qpn, request))
                    .map_err(|error| (index, error))
            })
        })
    }

    /// Receives the datagrams of a multicast group.
    pub fn join(&self, group: Gid) -> Result<(), MulticastError> {
        self.inner.pd.adapter().attach_mcast(self.inner.qpn, group)?;
        let mut groups = self.inner.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if !groups.contains(&group) {
            groups.push(group);
        }
        Ok(())
    }

    /// Ends that.
    pub fn leave(&self, group: Gid) -> Result<(), MulticastError> {
        self.inner.pd.adapter().detach_mcast(self.inner.qpn, group)?;
        let mut groups = self.inner.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|joined| *joined != group);
        Ok(())
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.attributes().map_or(QpState::Error, |attributes| attributes.state)
    }

    /// All its attributes. There are always some, but for a device that another process took over.
    pub fn attributes(&self) -> Option<QpAttributes> {
        self.inner.pd.adapter().query_qp(self.inner.qpn)
    }

    /// Changes its attributes or moves it to another state, or changes nothing at all: what
    /// [`connect`](Self::connect) does, step by step.
    pub fn modify(&self, change: &QpChange) -> Result<(), ModifyQpError> {
        self.inner.pd.adapter().modify_qp(self.inner.qpn, change)
    }

    /// Ends all work on it: what is posted completes as flushed.
    pub fn fail(&self) -> Result<(), ModifyQpError> {
        self.modify(&QpChange { state: Some(QpState::Error), ..QpChange::default() })
    }

    /// Starts it anew: forgets all work and the peer. It can then be connected again.
    pub fn reset(&self) -> Result<(), ModifyQpError> {
        self.modify(&QpChange { state: Some(QpState::Reset), ..QpChange::default() })?;
        self.initialize()
    }

    fn initialize(&self) -> Result<(), ModifyQpError> {
        let is_datagram = self.inner.qp_type == QpType::Ud;
        self.modify(&QpChange {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: (!is_datagram).then_some(self.inner.settings.access),
            qkey: is_datagram.then_some(self.inner.settings.qkey),
            ..QpChange::default()
        })
    }

    pub(super) fn context(&self) -> &Context {
        self.inner.pd.context()
    }

    /// What kind it is.
    pub(super) fn kind(&self) -> QpType {
        self.inner.qp_type
    }

    /// READs and atomics outstanding, and taken at once.
    pub(super) fn depth(&self) -> u8 {
        self.inner.settings.depth
    }

    /// Retries after a timeout.
    pub(super) fn retry_count(&self) -> u8 {
        self.inner.settings.retry_count
    }

    /// Retries while the peer is not ready.
    pub(super) fn rnr_retry(&self) -> u8 {
        self.inner.settings.rnr_retry
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let adapter = self.pd.adapter();
        for &group in self.groups.get_mut().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = adapter.detach_mcast(self.qpn, group);
        }
        let _ = adapter.destroy_qp(self.qpn);
        // Windows that were bound on it are unbound now.
        self.pd.context().clear_graves();
    }
}
