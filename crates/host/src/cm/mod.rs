//! Connection management in real time: a [`Cm`](nic::cm::Cm) on an adapter's port and clock.
//!
//! All programs of a host share its QP 1. What arrives there comes to the [service](crate::slot), which
//! passes each datagram on to the program it is for; what a program sends it sends itself. The service
//! also keeps the port numbers, and speaks for programs that died: their peers hear that the connections
//! are over.
//!
//! ```text
//!   verbs of ConnectionManager                     EventSink of each connection and listener
//!        │          │ reserve, listen                        ▲
//!        │          ▼ (Lease: ask and answer)                │ deliver
//!        │     ┌─────────┐   datagrams (MadChannel)  ┌───────┴────────┐
//!        │     │ service │──────────────────────────►│ CmSide: a Cm   │
//!        │     └────▲────┘         worker            │ in the Engine  │
//!        └──────────┼───────────────────────────────►└───────┬────────┘
//!          QP 1 of this host                                 ▼ QP 1 of peers, from our own socket
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `manager` | [`ConnectionManager`]: the verbs, thread-safe |
//! | `event` | [`EventSink`]: where news goes |
//! | `port` | [`Port`]: a reserved port number |
//! | `route` | the way to an address |
//! | `side` | the state machine as a part of the engine |

mod event;
mod manager;
mod port;
mod route;
mod side;

pub use event::{CmNews, EventSink, Reporter};
pub use manager::{ConnectionManager, ManagerError};
pub use port::{Port, PortError};
pub use route::{ResolvedRoute, RouteError};

pub(crate) use side::{CmSide, MadChannel};
