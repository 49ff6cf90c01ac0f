//! The verbs of connection management, as threads share them.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nic::Instant;
use nic::cm::{
    Cm, CmConfig, CmCounters, CmError, CmId, Listen, ListenAddress, ListenerId, RepParams, ReqParams,
    SidrParams, State,
};
use nic::verbs::{Mtu, QpChange, QpState};
use wire::Qpn;
use wire::cm::{PortSpace, RejReason, SidrStatus};

use super::{CmSide, MadChannel, Port, PortError, Reporter, ResolvedRoute, RouteError, route};
use crate::adapter::Adapter;
use crate::engine::Engine;
use crate::slot::{Lease, SUFFIX_BITS};

/// Connection management of an open adapter. Clones, and what one adapter is asked for again, are the same.
///
/// Every connection and listener has a [`Reporter`], which is told its news, possibly before the call that
/// made it returns. A request goes to the reporter of its listener, and so does what follows until
/// [`ConnectionManager::redirect`] names another one.
#[derive(Clone, Debug)]
pub struct ConnectionManager {
    adapter: Adapter,
}

/// Why a verb was refused.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// For what it asks.
    #[error(transparent)]
    Refused(#[from] CmError),
    /// The slot service is gone or does not answer, or the adapter is another process's since a fork.
    #[error("the slot service does not answer: {0}")]
    Service(#[from] io::Error),
}

/// What makes the names of reservations differ.
static NEXT_TOKEN: AtomicU32 = AtomicU32::new(1);

impl ConnectionManager {
    /// That of `adapter`, made if this is the first time.
    pub(crate) fn of(adapter: &Adapter) -> io::Result<Self> {
        let manager = Self { adapter: adapter.clone() };
        if adapter.shared().enter().cm.is_some() {
            return Ok(manager);
        }
        let lease = manager.lease()?;
        // Another thread may be faster, but it gets the same channel.
        let mads = MadChannel::new(lease.open_mad_channel()?);
        let mut engine = adapter.shared().enter();
        if engine.cm.is_none() {
            let config = CmConfig {
                id_suffix: u32::from(lease.slot()),
                id_suffix_bits: SUFFIX_BITS,
                seed: crate::device::seed(),
                ca_guid: crate::device::machine_guid(),
                mtu: Mtu::Mtu4096,
                ..CmConfig::default()
            };
            let mads = adapter.shared().wait_for_mads(mads);
            engine.cm = Some(Box::new(CmSide::new(Cm::new(config), mads)));
        }
        drop(engine);
        Ok(manager)
    }

    /// The adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    // ---- addresses and ports

    /// The way to `destination`. A link-local one needs its `interface`, which else is 0; `source` is taken
    /// if it is given and no wildcard.
    pub fn resolve_route(
        &self,
        destination: IpAddr,
        interface: u32,
        source: Option<IpAddr>,
    ) -> Result<ResolvedRoute, RouteError> {
        route::resolve(destination, interface, source, |index| self.adapter.gid(index))
    }

    /// Reserves a port, or with 0 one that nobody has. Where both sides say `shared`, several may have the
    /// same one, but only one of them may listen.
    pub fn reserve(
        &self,
        space: PortSpace,
        address: ListenAddress,
        port: u16,
        shared: bool,
    ) -> Result<Port, PortError> {
        let token = NEXT_TOKEN.fetch_add(1, Ordering::Relaxed);
        let number = self.lease()?.reserve(token, space, address, port, shared)?;
        Ok(Port { manager: self.clone(), token, space, address, number })
    }

    /// Gives a port back.
    pub(super) fn release(&self, token: u32) {
        // Without the service there are no ports.
        if let Ok(lease) = self.lease() {
            lease.release(token);
        }
    }

    // ---- listening

    /// Takes requests for a service, at most `backlog` of them unanswered (0: the most there may be). For
    /// a service that is a port the program must have reserved it.
    pub fn listen(
        &self,
        listen: Listen,
        backlog: u32,
        reporter: Reporter,
    ) -> Result<ListenerId, ManagerError> {
        let lease = self.lease()?;
        let id = self.with(|side, _| {
            let id = side.cm.listen(listen, backlog)?;
            side.report_listener(id, reporter);
            Ok(id)
        })?;
        if let Err(error) = lease.listen(listen) {
            self.with(|side, now| {
                side.forget_listener(id);
                side.cm.unlisten(now, id)
            })?;
            return Err(error);
        }
        Ok(id)
    }

    /// Takes no more. Requests that were delivered stay with the program, which had better destroy those
    /// it has not looked at.
    pub fn unlisten(&self, listener: ListenerId) -> Result<(), ManagerError> {
        let listen = self.with(|side, now| {
            let listen = side.cm.listener(listener).ok_or(CmError::UnknownId)?;
            side.forget_listener(listener);
            side.cm.unlisten(now, listener)?;
            Ok(listen)
        })?;
        if let Ok(lease) = self.lease() {
            lease.unlisten(listen);
        }
        Ok(())
    }

    // ---- connections

    /// Asks for a connection.
    pub fn connect(&self, params: &ReqParams<'_>, reporter: Reporter) -> Result<CmId, ManagerError> {
        self.with_service(|side, now| {
            let id = side.cm.connect(now, params)?;
            side.report_connection(id, reporter);
            Ok(id)
        })
    }

    /// Accepts a request. The queue pair should be ready to receive.
    pub fn accept(&self, id: CmId, params: &RepParams<'_>) -> Result<(), ManagerError> {
        self.with(|side, now| side.cm.accept(now, id, params))
    }

    /// Concludes after a reply: the queue pair is ready to send.
    pub fn establish(&self, id: CmId, private_data: &[u8]) -> Result<(), ManagerError> {
        self.with(|side, now| side.cm.establish(now, id, private_data))
    }

    /// Refuses a request or a reply.
    pub fn reject(
        &self,
        id: CmId,
        reason: RejReason,
        info: &[u8],
        private_data: &[u8],
    ) -> Result<(), ManagerError> {
        self.with(|side, now| side.cm.reject(now, id, reason, info, private_data))
    }

    /// Ends a connection.
    pub fn disconnect(&self, id: CmId, private_data: &[u8]) -> Result<(), ManagerError> {
        self.with(|side, now| side.cm.disconnect(now, id, private_data))
    }

    /// Something arrived on the queue pair, so the peer is ready. Queue pairs of this adapter tell so
    /// themselves.
    pub fn notify_established(&self, id: CmId) -> Result<(), ManagerError> {
        self.with(|side, now| {
            side.cm.notify_established(now, id);
            Ok(())
        })
    }

    /// Gives the name back. What is not over is ended, and the peer is told. No event of it is delivered
    /// from now on.
    pub fn destroy(&self, id: CmId) -> Result<(), ManagerError> {
        self.with(|side, now| {
            side.forget_connection(id);
            side.cm.destroy(now, id)
        })
    }

    // ---- datagram services

    /// Asks for the queue pair of a datagram service.
    pub fn resolve(&self, params: &SidrParams<'_>, reporter: Reporter) -> Result<CmId, ManagerError> {
        self.with_service(|side, now| {
            let id = side.cm.resolve(now, params)?;
            side.report_connection(id, reporter);
            Ok(id)
        })
    }

    /// Answers such a question: queue pair and key, or why not.
    pub fn answer(
        &self,
        id: CmId,
        answer: Result<(Qpn, u32), SidrStatus>,
        private_data: &[u8],
    ) -> Result<(), ManagerError> {
        self.with(|side, now| side.cm.answer(now, id, answer, private_data))
    }

    // ---- what there is to know

    /// What to modify the queue pair to, on the way to INIT, RTR or RTS.
    pub fn qp_change(&self, id: CmId, state: QpState) -> Result<QpChange, ManagerError> {
        self.with(|side, _| side.cm.qp_change(id, state))
    }

    /// Where a connection stands.
    pub fn state(&self, id: CmId) -> Option<State> {
        self.adapter.shared().enter().cm.as_ref()?.cm.state(id)
    }

    /// The path MTU that a connection came to.
    pub fn path_mtu(&self, id: CmId) -> Option<Mtu> {
        self.adapter.shared().enter().cm.as_ref()?.cm.path_mtu(id)
    }

    /// From now on news of a connection goes elsewhere. What was delivered stays where it is.
    pub fn redirect(&self, id: CmId, reporter: Reporter) -> Result<(), ManagerError> {
        self.with(|side, _| {
            if !side.knows(id) {
                return Err(CmError::UnknownId);
            }
            side.report_connection(id, reporter);
            Ok(())
        })
    }

    /// The same for a listener and the requests that come.
    pub fn redirect_listener(&self, id: ListenerId, reporter: Reporter) -> Result<(), ManagerError> {
        self.with(|side, _| {
            side.cm.listener(id).ok_or(CmError::UnknownId)?;
            side.report_listener(id, reporter);
            Ok(())
        })
    }

    /// Counters so far.
    pub fn counters(&self) -> CmCounters {
        let engine = self.adapter.shared().enter();
        engine.cm.as_ref().map(|side| side.cm.counters()).unwrap_or_default()
    }

    /// How many connections there are, lingering ones included.
    pub fn connections(&self) -> usize {
        self.adapter.shared().enter().cm.as_ref().map_or(0, |side| side.cm.connections())
    }

    /// How many connections the program has not given back.
    pub fn owned(&self) -> usize {
        self.adapter.shared().enter().cm.as_ref().map_or(0, |side| side.owned())
    }

    // ---- helpers

    /// Calls a verb, and sends and tells what comes of it.
    fn with<R>(
        &self,
        verb: impl FnOnce(&mut CmSide, Instant) -> Result<R, CmError>,
    ) -> Result<R, ManagerError> {
        self.adapter.serve(|engine: &mut Engine, now| match &mut engine.cm {
            Some(side) => verb(side, now).map_err(ManagerError::from),
            None => Err(gone().into()),
        })
    }

    /// The same for a verb that waits for an answer, which would never come if the service is gone.
    fn with_service<R>(
        &self,
        verb: impl FnOnce(&mut CmSide, Instant) -> Result<R, CmError>,
    ) -> Result<R, ManagerError> {
        let is_reachable = self.adapter.shared().enter().cm.as_ref().is_some_and(|side| side.is_reachable());
        if is_reachable { self.with(verb) } else { Err(io::Error::from(io::ErrorKind::NotConnected).into()) }
    }

    /// The connection to the service, if this process has the adapter.
    fn lease(&self) -> io::Result<Arc<Lease>> {
        self.adapter.shared().enter().link().lease().ok_or_else(gone)
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the adapter is another process's since a fork, or closed")
}
