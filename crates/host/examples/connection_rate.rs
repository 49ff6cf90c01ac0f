//! Measures how many connections a second two programs on the loopback interface make and end, with
//! everything that belongs to one: a port, queue pairs on both sides, and their way to RTS and away.
//!
//! ```text
//! connection_rate [connections] [at once]
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use host::channel::Channel;
use host::cm::{CmNews, ConnectionManager, Port, Reporter};
use host::{Adapter, Device};
use nic::cm::{CmEvent, CmId, Endpoint, Listen, ListenAddress, Patience, RepParams, ReqParams};
use nic::verbs::{Cq, Pd, QpCapabilities, QpInit, QpState, QpType};
use wire::Qpn;
use wire::cm::{IpCmHeader, PortSpace, ServiceId, TransportService};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const LOOPBACK: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<usize>());
    let (connections, at_once) = (number(20_000)?, number(32)?.max(1));
    host::slot::start_in_child()?;
    let (tell, hear) = mpsc::channel();
    let server = std::thread::spawn(move || serve(&tell, connections));
    let client = Side::new()?;
    let port = hear.recv()?;
    let begun = Instant::now();
    client.run(port, connections, at_once)?;
    let elapsed = begun.elapsed().as_secs_f64();
    println!(
        "{connections} connections, {at_once} at once: {:.0} a second, {} datagrams repeated",
        connections as f64 / elapsed,
        client.cm.counters().retransmitted
    );
    server.join().map_err(|_| "the server panicked")?
}

/// Accepts and outlives so many connections.
fn serve(tell: &mpsc::Sender<u16>, connections: usize) -> Outcome<()> {
    let side = Side::new()?;
    let address = ListenAddress::Ip(LOOPBACK);
    let port = side.cm.reserve(PortSpace::TCP, address, 0, false)?;
    let service = ServiceId::of_port(PortSpace::TCP, port.number());
    side.cm.listen(Listen { service, datagram: false, address }, 0, side.reporter())?;
    tell.send(port.number())?;
    let mut queue_pairs = HashMap::new();
    let mut ended = 0;
    while ended < connections {
        match side.news.pop()?.event {
            CmEvent::Request(request) => {
                let qpn = side.queue_pair()?;
                side.ready(request.id, qpn)?;
                let local = Endpoint { qpn, ..Endpoint::default() };
                side.cm.accept(request.id, &RepParams { local, private_data: &[] })?;
                queue_pairs.insert(request.id, qpn);
            }
            CmEvent::Disconnected { id } => {
                side.finish(id, queue_pairs.remove(&id))?;
                ended += 1;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A program with an adapter of its own.
struct Side {
    adapter: Adapter,
    cm: ConnectionManager,
    news: Arc<Channel<CmNews>>,
    pd: Pd,
    cq: Cq,
}

impl Side {
    fn new() -> Outcome<Self> {
        let adapter = Device::from_environment()?.open()?;
        let cm = adapter.connection_manager()?;
        let pd = adapter.alloc_pd()?;
        let (cq, _) = adapter.create_cq(16, None)?;
        Ok(Self { adapter, cm, news: Arc::new(Channel::new()?), pd, cq })
    }

    fn reporter(&self) -> Reporter {
        Reporter { sink: self.news.clone(), token: 0 }
    }

    fn queue_pair(&self) -> Outcome<Qpn> {
        let init = QpInit {
            pd: self.pd,
            qp_type: QpType::Rc,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            capabilities: QpCapabilities { max_send_wr: 16, max_recv_wr: 16, ..QpCapabilities::default() },
            signal_all: false,
        };
        Ok(self.adapter.create_qp(&init)?.0)
    }

    fn ready(&self, id: CmId, qpn: Qpn) -> Outcome<()> {
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            self.adapter.modify_qp(qpn, &self.cm.qp_change(id, state)?)?;
        }
        Ok(())
    }

    fn finish(&self, id: CmId, queue_pair: Option<Qpn>) -> Outcome<()> {
        self.cm.destroy(id)?;
        Ok(queue_pair.map_or(Ok(()), |qpn| self.adapter.destroy_qp(qpn))?)
    }

    /// Makes and ends so many connections.
    fn run(&self, port: u16, connections: usize, at_once: usize) -> Outcome<()> {
        let mut open: HashMap<CmId, (Qpn, Port)> = HashMap::new();
        let (mut begun, mut ended) = (0, 0);
        while ended < connections {
            while begun < connections && open.len() < at_once {
                let (id, ends) = self.connect(port)?;
                open.insert(id, ends);
                begun += 1;
            }
            match self.news.pop()?.event {
                CmEvent::Reply(reply) => {
                    let (qpn, _) = open.get(&reply.id).ok_or("a reply to nobody")?;
                    self.ready(reply.id, *qpn)?;
                    self.cm.establish(reply.id, &[])?;
                    self.cm.disconnect(reply.id, &[])?;
                }
                CmEvent::Disconnected { id } => {
                    self.finish(id, open.remove(&id).map(|(qpn, _)| qpn))?;
                    ended += 1;
                }
                CmEvent::TimewaitExit { .. } => {}
                other => return Err(format!("unexpected: {other:?}").into()),
            }
        }
        Ok(())
    }

    fn connect(&self, port: u16) -> Outcome<(CmId, (Qpn, Port))> {
        let route = self.cm.resolve_route(LOOPBACK, 0, None)?;
        let source = self.cm.reserve(PortSpace::TCP, ListenAddress::Ip(route.source), 0, false)?;
        let qpn = self.queue_pair()?;
        let params = ReqParams {
            path: route.path,
            service: ServiceId::of_port(PortSpace::TCP, port),
            addresses: Some(IpCmHeader {
                source: route.source,
                source_port: source.number(),
                destination: LOOPBACK,
            }),
            transport: TransportService::Rc,
            local: Endpoint { qpn, ..Endpoint::default() },
            retry_count: 7,
            patience: Patience::default(),
            private_data: &[],
        };
        Ok((self.cm.connect(&params, self.reporter())?, (qpn, source)))
    }
}
