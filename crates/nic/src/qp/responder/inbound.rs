//! SENDs and RDMA WRITEs as they arrive, packet by packet.

use wire::{Extended, Headers, Immediate, Kind, NakCode, Position};

use crate::keys::RemoteNeed;
use crate::memory::{Memory, Payload};
use crate::qp::Environment;
use crate::qp::connection::Connection;
use crate::qp::scatter::{self, ScatterError};
use crate::receive::{Receive, ReceiveQueue};
use crate::verbs::{CompletionOpcode, Status};

/// The message that is arriving.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    message: Message,
    /// A receive that was taken for a message given up, and takes the next one.
    spare: Option<Receive>,
}

#[derive(Debug, Default)]
enum Message {
    /// None.
    #[default]
    Idle,
    /// A SEND, and the receive that takes it.
    Send { receive: Receive, received: u32 },
    /// An RDMA WRITE.
    Write(Write),
}

/// An RDMA WRITE of which a part has arrived.
#[derive(Clone, Copy, Debug)]
struct Write {
    address: u64,
    rkey: u32,
    length: u32,
    received: u32,
}

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no receive for it yet.
    NotReady,
    /// It is malformed, or cannot be done.
    InvalidRequest,
    /// It names memory that the peer has no right to.
    Access,
    /// The receive that it uses is at fault, and completes with `status`.
    Receive { status: Status, code: NakCode },
}

/// Where in its message a packet stands.
#[derive(Clone, Copy)]
struct Place {
    begins: bool,
    ends: bool,
}

impl Inbound {
    /// Whether no message is in the middle.
    pub fn is_idle(&self) -> bool {
        matches!(self.message, Message::Idle)
    }

    /// Takes the next packet of a message; true if it was the message's last, which then is complete.
    /// If there is no receive for it, nothing has changed; after any other refusal, the message cannot
    /// go on.
    pub fn accept<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        receives: &mut ReceiveQueue,
        env: &mut Environment<'_, M>,
        headers: &Headers,
        payload: Payload<'_>,
    ) -> Result<bool, Refusal> {
        let layout = headers.bth.opcode.layout().ok_or(Refusal::InvalidRequest)?;
        let place = Place {
            begins: matches!(layout.position, Position::First | Position::Only),
            ends: matches!(layout.position, Position::Last | Position::Only),
        };
        check_length(place, payload.len(), connection.mtu())?;
        match (layout.kind, &self.message) {
            (Kind::Send, Message::Idle) if place.begins => {
                let receive = self.take_receive(connection, receives, env)?;
                self.message = Message::Send { receive, received: 0 };
                self.accept_send(connection, env, headers, place, payload)
            }
            (Kind::Send, Message::Send { .. }) if !place.begins => {
                self.accept_send(connection, env, headers, place, payload)
            }
            (Kind::Write, Message::Idle) if place.begins => {
                let write = begin_write(connection, env, headers)?;
                self.accept_write(connection, receives, env, headers, place, payload, write)
            }
            (Kind::Write, &Message::Write(write)) if !place.begins => {
                self.accept_write(connection, receives, env, headers, place, payload, write)
            }
            _ => Err(Refusal::InvalidRequest),
        }
    }

    /// Gives the message up. The receive it used takes the next one.
    pub fn give_up(&mut self) {
        if let Message::Send { receive, .. } = core::mem::take(&mut self.message) {
            self.spare = Some(receive);
        }
    }

    /// Gives the message up and completes the receive in use, if there is one.
    pub fn abandon<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        status: Status,
    ) {
        self.give_up();
        if let Some(receive) = self.spare.take() {
            let completion = connection.completion(receive.wr_id, status, CompletionOpcode::Recv);
            env.complete(connection.attributes.init.recv_cq, completion, false);
        }
    }

    fn take_receive<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        receives: &mut ReceiveQueue,
        env: &mut Environment<'_, M>,
    ) -> Result<Receive, Refusal> {
        self.spare.take().or_else(|| env.take_receive(connection, receives)).ok_or(Refusal::NotReady)
    }

    fn accept_send<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        headers: &Headers,
        place: Place,
        payload: Payload<'_>,
    ) -> Result<bool, Refusal> {
        let Message::Send { receive, received } = &mut self.message else {
            return Err(Refusal::InvalidRequest);
        };
        let (receive_pd, length) = (env.receive_pd(connection), payload.len() as u32);
        scatter::scatter(env.keys, env.memory, receive_pd, &receive.sges, *received, payload)?;
        // It fitted into elements whose lengths are limited, so the sum does not wrap.
        *received = received.saturating_add(length);
        if !place.ends {
            return Ok(false);
        }
        if let Immediate::Invalidate(key) = headers.immediate {
            env.keys.invalidate(connection.pd(), connection.qpn, key).map_err(|_| Refusal::Receive {
                status: Status::RemoteInvalidRequest,
                code: NakCode::RemoteAccess,
            })?;
        }
        let mut completion = connection.completion(receive.wr_id, Status::Success, CompletionOpcode::Recv);
        completion.byte_length = *received;
        completion.immediate = headers.immediate;
        env.complete(connection.attributes.init.recv_cq, completion, headers.bth.solicited);
        self.message = Message::Idle;
        Ok(true)
    }

    #[expect(clippy::too_many_arguments, reason = "a packet, its surroundings, and the message so far")]
    fn accept_write<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        receives: &mut ReceiveQueue,
        env: &mut Environment<'_, M>,
        headers: &Headers,
        place: Place,
        payload: Payload<'_>,
        mut write: Write,
    ) -> Result<bool, Refusal> {
        let length = payload.len() as u32;
        let rest = write.length.checked_sub(write.received).and_then(|rest| rest.checked_sub(length));
        match rest {
            Some(0) if place.ends => {}
            Some(1..) if !place.ends => {}
            _ => return Err(Refusal::InvalidRequest),
        }
        // The key may have been taken back since the first packet.
        let address = write.address.checked_add(u64::from(write.received)).ok_or(Refusal::Access)?;
        let address = env
            .keys
            .remote(
                connection.pd(),
                connection.qpn,
                write.rkey,
                address,
                u64::from(length),
                RemoteNeed::Write,
            )
            .map_err(|_| Refusal::Access)?;
        let receive = match headers.immediate {
            Immediate::None => None,
            _ => Some(self.take_receive(connection, receives, env)?),
        };
        if length > 0 {
            env.memory.write(address, payload);
        }
        write.received += length;
        self.message = if place.ends { Message::Idle } else { Message::Write(write) };
        if let Some(receive) = receive {
            let opcode = CompletionOpcode::RecvWriteWithImmediate;
            let mut completion = connection.completion(receive.wr_id, Status::Success, opcode);
            completion.byte_length = write.length;
            completion.immediate = headers.immediate;
            env.complete(connection.attributes.init.recv_cq, completion, headers.bth.solicited);
        }
        Ok(place.ends)
    }
}

/// Checks what the first packet says about the whole message.
fn begin_write<M: Memory>(
    connection: Connection<'_>,
    env: &Environment<'_, M>,
    headers: &Headers,
) -> Result<Write, Refusal> {
    let Extended::Reth(reth) = headers.extended else { return Err(Refusal::InvalidRequest) };
    if !RemoteNeed::Write.is_allowed_by(connection.attributes.access) {
        return Err(Refusal::InvalidRequest);
    }
    env.keys
        .remote(
            connection.pd(),
            connection.qpn,
            reth.rkey,
            reth.va,
            u64::from(reth.length),
            RemoteNeed::Write,
        )
        .map_err(|_| Refusal::Access)?;
    Ok(Write { address: reth.va, rkey: reth.rkey, length: reth.length, received: 0 })
}

/// Every packet but the last is full, and the last of several is not empty (IBTA 9.7.4.1).
fn check_length(place: Place, length: usize, mtu: u32) -> Result<(), Refusal> {
    let mtu = mtu as usize;
    let is_good = match (place.begins, place.ends) {
        (_, false) => length == mtu,
        (false, true) => (1..=mtu).contains(&length),
        (true, true) => length <= mtu,
    };
    if is_good { Ok(()) } else { Err(Refusal::InvalidRequest) }
}

impl From<ScatterError> for Refusal {
    fn from(error: ScatterError) -> Self {
        let code = match error {
            ScatterError::TooShort => NakCode::InvalidRequest,
            ScatterError::Key(_) => NakCode::RemoteOperational,
        };
        Self::Receive { status: error.status(), code }
    }
}
