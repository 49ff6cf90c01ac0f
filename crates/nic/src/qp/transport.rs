//! The protocol machines of the kinds of queue pair, and what they have in common.

use wire::Psn;

use super::Environment;
use super::connection::Connection;
use super::datagram::DatagramSender;
use super::requester::Requester;
use super::responder::{Breach, Responder, UnreliableResponder};
use crate::memory::Memory;
use crate::nic::Config;
use crate::verbs::QpType;

/// The machines of a queue pair. A datagram's receiver has no state, hence no value.
#[derive(Debug)]
pub(super) enum Transport {
    Reliable(Requester, Responder),
    Unreliable(Requester, UnreliableResponder),
    Datagram(DatagramSender),
}

impl Transport {
    /// The machines of a queue pair in RESET.
    pub fn new(qp_type: QpType, config: &Config) -> Self {
        let requester = || Requester::new(config.window);
        match qp_type {
            QpType::Rc => Self::Reliable(requester(), Responder::default()),
            QpType::Uc => Self::Unreliable(requester(), UnreliableResponder::default()),
            QpType::Ud => Self::Datagram(DatagramSender::default()),
        }
    }

    /// The requester of a connection.
    pub fn requester(&self) -> Option<&Requester> {
        match self {
            Self::Reliable(requester, _) | Self::Unreliable(requester, _) => Some(requester),
            Self::Datagram(_) => None,
        }
    }

    /// The requester of a connection.
    pub fn requester_mut(&mut self) -> Option<&mut Requester> {
        match self {
            Self::Reliable(requester, _) | Self::Unreliable(requester, _) => Some(requester),
            Self::Datagram(_) => None,
        }
    }

    /// How many send requests are posted and not complete.
    pub fn posted(&self) -> usize {
        match self {
            Self::Reliable(requester, _) | Self::Unreliable(requester, _) => requester.posted(),
            Self::Datagram(sender) => sender.posted(),
        }
    }

    /// The PSN of the next packet sent.
    pub fn next_psn(&self) -> Psn {
        match self {
            Self::Reliable(requester, _) | Self::Unreliable(requester, _) => requester.next_psn(),
            Self::Datagram(sender) => sender.next_psn(),
        }
    }

    /// The PSN of the next packet expected; none for datagrams.
    pub fn expected_psn(&self) -> Option<Psn> {
        match self {
            Self::Reliable(_, responder) => Some(responder.expected_psn()),
            Self::Unreliable(_, responder) => Some(responder.expected_psn()),
            Self::Datagram(_) => None,
        }
    }

    /// Begins to receive, on entering RTR.
    pub fn start_receiving(&mut self, psn: Psn) {
        match self {
            Self::Reliable(_, responder) => *responder = Responder::new(psn),
            Self::Unreliable(_, responder) => *responder = UnreliableResponder::new(psn),
            Self::Datagram(_) => {}
        }
    }

    /// Begins to send, on entering RTS.
    pub fn start_sending(&mut self, connection: Connection<'_>) {
        match self {
            Self::Reliable(requester, _) | Self::Unreliable(requester, _) => requester.start(connection),
            Self::Datagram(sender) => sender.start(connection.attributes.sq_psn),
        }
    }

    /// Whether there may be a request to send.
    pub fn has_request(&self) -> bool {
        match self {
            Self::Reliable(requester, _) | Self::Unreliable(requester, _) => requester.wants_transmit(),
            Self::Datagram(sender) => sender.wants_transmit(),
        }
    }

    /// Whether there is an answer to send.
    pub fn has_answer(&self) -> bool {
        matches!(self, Self::Reliable(_, responder) if responder.wants_transmit())
    }

    /// Whether there is an answer to send that should not wait behind data.
    pub fn has_urgent_answer(&self) -> bool {
        matches!(self, Self::Reliable(_, responder) if responder.is_urgent())
    }

    /// Whether a send request failed.
    pub fn is_broken(&self) -> bool {
        match self {
            Self::Reliable(requester, _) | Self::Unreliable(requester, _) => requester.is_broken(),
            Self::Datagram(sender) => sender.is_broken(),
        }
    }

    /// Whether no send request is in the middle. A datagram never is.
    pub fn is_drained(&self) -> bool {
        self.requester().is_none_or(Requester::is_drained)
    }

    /// Why the responder ended the connection, if it just did.
    pub fn take_breach(&mut self) -> Option<Breach> {
        match self {
            Self::Reliable(_, responder) => responder.take_breach(),
            Self::Unreliable(..) | Self::Datagram(_) => None,
        }
    }

    /// Forgets what is to be answered.
    pub fn silence(&mut self) {
        if let Self::Reliable(_, responder) = self {
            responder.silence();
        }
    }

    /// Completes all send requests as flushed.
    pub fn flush_sends<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        match self {
            Self::Reliable(requester, _) | Self::Unreliable(requester, _) => requester.flush(connection, env),
            Self::Datagram(sender) => sender.flush(connection, env),
        }
    }

    /// Completes the receive in use, if there is one, as flushed.
    pub fn flush_receive<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        match self {
            Self::Reliable(_, responder) => responder.flush(connection, env),
            Self::Unreliable(_, responder) => responder.flush(connection, env),
            Self::Datagram(_) => {}
        }
    }
}
