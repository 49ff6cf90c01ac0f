//! What happened that nobody asked about.

use super::{Cq, Srq};
use wire::Qpn;

/// News for the owner of the adapter, from [`Nic::poll_event`](crate::Nic::poll_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The completion queue was armed and a completion of the kind asked for arrived.
    Completion(Cq),
    /// An asynchronous event.
    Async(AsyncEvent),
}

impl Event {
    /// The queue pair it is about.
    pub const fn queue_pair(&self) -> Option<Qpn> {
        match *self {
            Self::Async(
                AsyncEvent::QpFatal(qpn)
                | AsyncEvent::QpRequestError(qpn)
                | AsyncEvent::QpAccessError(qpn)
                | AsyncEvent::CommunicationEstablished(qpn)
                | AsyncEvent::SqDrained(qpn)
                | AsyncEvent::LastWqeReached(qpn),
            ) => Some(qpn),
            _ => None,
        }
    }

    /// The completion queue it is about.
    pub const fn completion_queue(&self) -> Option<Cq> {
        match *self {
            Self::Completion(cq) | Self::Async(AsyncEvent::CqError(cq)) => Some(cq),
            _ => None,
        }
    }

    /// The shared receive queue it is about.
    pub const fn shared_receive_queue(&self) -> Option<Srq> {
        match *self {
            Self::Async(AsyncEvent::SrqError(srq) | AsyncEvent::SrqLimitReached(srq)) => Some(srq),
            _ => None,
        }
    }
}

/// Asynchronous events, affiliated and not (IBTA 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// The completion queue overran.
    CqError(Cq),
    /// A queue pair went to the error state for a reason no completion tells.
    QpFatal(Qpn),
    /// The responder refused a request as invalid and the queue pair went to the error state.
    QpRequestError(Qpn),
    /// The responder refused a request's access and the queue pair went to the error state.
    QpAccessError(Qpn),
    /// A packet arrived while the queue pair was in RTR.
    CommunicationEstablished(Qpn),
    /// The send queue drained after a move to SQD.
    SqDrained(Qpn),
    /// A queue pair on a shared receive queue is in the error state and takes no more receives from it.
    LastWqeReached(Qpn),
    /// The shared receive queue broke.
    SrqError(Srq),
    /// The shared receive queue fell below its limit.
    SrqLimitReached(Srq),
    /// The device is gone.
    DeviceFatal,
    /// The port came up.
    PortActive,
    /// The port went down.
    PortError,
    /// The GID table changed.
    GidChange,
}
