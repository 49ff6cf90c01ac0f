//! Unreliable datagrams (IBTA 9.8.3): one packet each, to a destination of its own.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use wire::{Deth, Extended, Grh, Headers, Immediate, Ipv4, Ipv6, Operation, Psn, Qpn, TrafficClass};

use super::connection::Connection;
use super::send_queue::{Request, SendQueue};
use super::{Environment, scatter};
use crate::memory::{Memory, Payload};
use crate::packet::{Arrival, Message, Route, Run, Transmit};
use crate::receive::ReceiveQueue;
use crate::verbs::{CompletionOpcode, PostError, SendOperation, SendRequest, Status};

/// The sending half of a UD queue pair.
#[derive(Debug, Default)]
pub(crate) struct DatagramSender {
    queue: SendQueue,
    /// One for each request.
    destinations: VecDeque<Destination>,
    psn: Psn,
    is_broken: bool,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// The way there.
    pub route: Route,
    /// The queue pair there.
    pub qpn: Qpn,
    /// As posted.
    pub qkey: u32,
}

/// A queue key with this bit stands for the queue pair's own (IBTA 10.2.4): programs without privileges
/// cannot send with such a key.
const PRIVILEGED_QKEY: u32 = 1 << 31;

/// What precedes the payload in a receive: the network header that a datagram came with.
const GRH_SPACE: u32 = 40;

impl DatagramSender {
    /// Begins to send with this PSN.
    pub fn start(&mut self, psn: Psn) {
        self.psn = psn;
        self.is_broken = false;
    }

    /// How many datagrams wait to be sent.
    pub fn posted(&self) -> usize {
        self.queue.requests.len()
    }

    /// The PSN of the next datagram.
    pub fn next_psn(&self) -> Psn {
        self.psn
    }

    /// Whether a request failed. The failed request is complete.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether there is anything to send.
    pub fn wants_transmit(&self) -> bool {
        !self.queue.requests.is_empty()
    }

    /// Adds a datagram of at most `mtu` bytes.
    pub fn post(
        &mut self,
        connection: Connection<'_>,
        request: &SendRequest<'_>,
        destination: Destination,
        mtu: u32,
    ) -> Result<(), PostError> {
        let length = self.queue.check(connection, request)?;
        if length > mtu {
            return Err(PostError::MessageTooLong);
        }
        self.queue.push(connection, request, length, 1);
        self.destinations.push_back(destination);
        Ok(())
    }

    /// The next datagram. It is complete once it was taken.
    pub fn poll_transmit<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
    ) -> Option<Transmit> {
        let (request, destination) = (self.queue.requests.front()?, self.destinations.front()?);
        match build(connection, env, request, destination, self.psn) {
            Ok(transmit) => {
                self.psn += 1;
                self.complete_front(connection, env, Status::Success);
                Some(transmit)
            }
            Err(error) => {
                self.is_broken = true;
                self.complete_front(connection, env, error.status());
                None
            }
        }
    }

    /// Completes all requests as flushed.
    pub fn flush<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        while !self.queue.requests.is_empty() {
            self.complete_front(connection, env, Status::WorkRequestFlushed);
        }
        self.is_broken = false;
    }

    fn complete_front<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        status: Status,
    ) {
        self.destinations.pop_front();
        if let Some(request) = self.queue.pop() {
            env.complete_send(connection, &request, status);
            self.queue.recycle(request);
        }
    }
}

fn build<M: Memory>(
    connection: Connection<'_>,
    env: &Environment<'_, M>,
    request: &Request,
    destination: &Destination,
    psn: Psn,
) -> Result<Transmit, scatter::ScatterError> {
    let payload = request.payload(env.keys, connection.pd(), 0..request.length)?;
    let qkey =
        if destination.qkey & PRIVILEGED_QKEY != 0 { connection.attributes.qkey } else { destination.qkey };
    let mut first = connection.headers(Operation::SendOnly, psn);
    first.bth.dest_qp = destination.qpn;
    first.bth.solicited = request.flags.solicited;
    first.extended = Extended::Deth(Deth { qkey, source_qp: connection.qpn });
    if let SendOperation::SendWithImmediate(data) = request.operation {
        first.immediate = Immediate::Data(data);
    }
    Ok(Transmit {
        route: destination.route,
        source_qp: connection.qpn,
        payload,
        payload_length: request.length,
        first,
        run: Run { message: Message::Send, mtu: request.length, ..Run::SINGLE },
    })
}

/// Takes a datagram, or drops it. False if a receive was at fault, which ends the queue pair's work.
pub(crate) fn receive<M: Memory>(
    connection: Connection<'_>,
    receives: &mut ReceiveQueue,
    env: &mut Environment<'_, M>,
    arrival: &Arrival,
    headers: &Headers,
    payload: Payload<'_>,
) -> bool {
    let Extended::Deth(deth) = headers.extended else {
        env.counters.dropped_malformed += 1;
        return true;
    };
    if deth.qkey != connection.attributes.qkey {
        env.counters.dropped_qkey += 1;
        return true;
    }
    let length = GRH_SPACE as usize + payload.len();
    if payload.len() > env.port.mtu().bytes() as usize || !env.has_room(connection, receives, length) {
        env.counters.dropped_no_receive += 1;
        return true;
    }
    let Some(receive) = env.take_receive(connection, receives) else {
        env.counters.dropped_no_receive += 1;
        return true;
    };
    let network = network_header(arrival, headers, payload.len());
    let pd = env.receive_pd(connection);
    let placed = scatter::scatter(env.keys, env.memory, pd, &receive.sges, 0, Payload::Bytes(&network))
        .and_then(|()| scatter::scatter(env.keys, env.memory, pd, &receive.sges, GRH_SPACE, payload));
    let status = placed.map_or_else(scatter::ScatterError::status, |()| Status::Success);
    let mut completion = connection.completion(receive.wr_id, status, CompletionOpcode::Recv);
    completion.byte_length = length as u32;
    completion.immediate = headers.immediate;
    completion.source_qp = deth.source_qp;
    completion.has_grh = true;
    env.complete(connection.attributes.init.recv_cq, completion, headers.bth.solicited);
    status == Status::Success
}

/// The network header in the 40 bytes of a GRH: an IPv6 header as it is, an IPv4 header in the last 20
/// (IBTA A17). What the sender alone knows of it (flow label, identification) is zero.
fn network_header(arrival: &Arrival, headers: &Headers, payload: usize) -> [u8; GRH_SPACE as usize] {
    /// UDP before the transport headers, and the invariant CRC behind the payload.
    const AROUND: usize = 8 + 4;
    let mut bytes = [0; Grh::LEN];
    let pad = usize::from(headers.bth.pad_count);
    let length = AROUND + headers.len() + payload + pad;
    let traffic_class = TrafficClass::from_byte(arrival.traffic_class);
    match (arrival.source.ip(), arrival.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ttl = arrival.hop_limit;
            let header = Ipv4 { traffic_class, ttl, source, destination, ..Ipv4::default() };
            header.sealed(length).emit(&mut bytes[Grh::LEN - Ipv4::LEN..]);
        }
        _ => {
            let header = Ipv6 {
                traffic_class,
                hop_limit: arrival.hop_limit,
                source: arrival.source.0.into(),
                destination: arrival.destination.0.into(),
                ..Ipv6::default()
            };
            header.sealed(length).emit(&mut bytes);
        }
    }
    bytes
}
