//! The safe Rust API: verbs without a way to touch freed memory or to race with the adapter.
//!
//! Objects are handles. Each keeps what it needs alive, so they may be dropped in any order, and the
//! adapter lets go of an object when its last handle is dropped.
//!
//! One-sided operations between two programs, here in one:
//!
//! ```
//! use std::time::Duration;
//!
//! use host::{Access, Context, QpType, Work, devices};
//!
//! # host::slot::start_in_child()?;
//! // One side opens a device, registers memory that peers may access, and makes a queue pair.
//! let device = &devices()?[0];
//! let server = Context::open(device)?.protection_domain()?;
//! let memory = server.register(1 << 20, Access::ALL)?;
//! let server_queue = server.context().completion_queue(16)?;
//! let server_qp = server.queue_pair(QpType::Rc, &server_queue).build()?;
//!
//! // So does the other side.
//! let client = Context::open(device)?.protection_domain()?;
//! let buffer = client.register(1 << 20, Access::ALL)?;
//! let queue = client.context().completion_queue(16)?;
//! let qp = client.queue_pair(QpType::Rc, &queue).build()?;
//!
//! // They tell each other how they are reached (see `exchange`), and connect.
//! let remote = memory.remote();
//! qp.connect(&server_qp.endpoint())?;
//! server_qp.connect(&qp.endpoint())?;
//!
//! // The client writes to the server's memory; the server need not do anything.
//! buffer.write(0, b"hello")?;
//! qp.post(&Work::write(&[buffer.slice(..5)?], remote.at(100)).id(7))?;
//! let done = queue.wait(Duration::from_secs(10))?;
//! assert!(done.is_success() && done.wr_id == 7);
//! assert_eq!(memory.to_vec(100..105)?, b"hello");
//!
//! // It adds to a word of it, and reads back what it was and what it is.
//! memory.store_u64(8, 41)?;
//! qp.post(&Work::fetch_add(&[buffer.slice(..8)?], remote.at(8), 1))?;
//! assert!(queue.wait(Duration::from_secs(10))?.is_success());
//! qp.post(&Work::read(&[buffer.slice(8..16)?], remote.at(8)))?;
//! assert!(queue.wait(Duration::from_secs(10))?.is_success());
//! assert_eq!((buffer.load_u64(0)?, buffer.load_u64(8)?), (41, 42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `context` | devices, open devices, and what they tell |
//! | `domain` | protection domains, from which most objects are made; address handles |
//! | `region`, `window` | memory that the adapter and peers may access |
//! | `completion` | completion queues, and waiting for them |
//! | `queue_pair`, `shared_receive` | queue pairs and where they take receives from |
//! | `work` | work requests |
//! | `connection` | connections by address and port (RDMA CM) |
//! | `endpoint` | what two sides tell each other before they are connected |

mod completion;
mod connection;
mod context;
mod domain;
mod endpoint;
mod queue_pair;
mod region;
mod shared_receive;
mod window;
mod work;

pub use nic::verbs::{
    Access, AddressVector, AsyncEvent, Completion, CompletionOpcode, CqError, CreateError, GidEntry, GidType,
    Limits, ModifyQpError, ModifySrqError, Mtu, MulticastError, MwType, PortState, PostError, QpAttributes,
    QpCapabilities, QpChange, QpState, QpType, RegisterError, Remote, SendOperation, SrqAttributes, Status,
};
pub use wire::{Gid, Immediate, Psn, Qpn};

pub use completion::{CompletionQueue, EventChannel, WaitError};
pub use connection::{ConnectError, Connection, Incoming, Listener};
pub use context::{AsyncEvents, Context, Port, devices};
pub use domain::{AddressHandle, ProtectionDomain};
pub use endpoint::{ParseEndpointError, QpEndpoint, exchange};
pub use queue_pair::{BuildError, QueuePair, QueuePairBuilder};
pub use region::{MemoryRegion, OutOfBounds, RegionSlice, RemoteRegion};
pub use shared_receive::SharedReceiveQueue;
pub use window::MemoryWindow;
pub use work::{Data, Receive, Work};
