//! Where news of connections goes.

use std::fmt;
use std::sync::Arc;

use nic::cm::CmEvent;

use crate::channel::Channel;

/// Takes news of connections. It is called while the adapter is locked: it must neither wait nor call the
/// adapter, but put the event where its program finds it.
pub trait EventSink: Send + Sync {
    /// Takes one event; `token` is what the connection or listener was given with this sink.
    fn deliver(&self, token: u64, event: CmEvent);
}

/// Whom to tell, and by which word of the caller's.
#[derive(Clone)]
pub struct Reporter {
    /// Who is told.
    pub sink: Arc<dyn EventSink>,
    /// The caller's word for the connection or listener.
    pub token: u64,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("token", &self.token).finish_non_exhaustive()
    }
}

/// An event with the token of its reporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmNews {
    /// The token.
    pub token: u64,
    /// The event.
    pub event: CmEvent,
}

/// The plainest sink: a queue behind a file descriptor.
impl EventSink for Channel<CmNews> {
    fn deliver(&self, token: u64, event: CmEvent) {
        self.push(CmNews { token, event });
    }
}
