//! Work requests.

use wire::{Gid, Qpn};

use super::{Access, Ah, Mw};

/// A scatter/gather element: a piece of a memory region, named by its local key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Address as registered (the region's iova space).
    pub address: u64,
    /// Length in bytes. A posted length of 0 means 2^31 in a descriptor of hardware; here it means 0.
    pub length: u32,
    /// The region's local key.
    pub lkey: u32,
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Address in the peer's region.
    pub address: u64,
    /// The region's or window's remote key.
    pub rkey: u32,
}

/// What a window is to cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Local key of the region underneath.
    pub lkey: u32,
    /// Start, in the region's iova space.
    pub address: u64,
    /// Length in bytes; zero unbinds a type 1 window.
    pub length: u64,
    /// Rights granted to the peer.
    pub access: Access,
}

/// What a send request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOperation {
    /// SEND.
    Send,
    /// SEND with immediate data (the integer whose big-endian form is on the wire).
    SendWithImmediate(u32),
    /// SEND that invalidates a key of the peer's.
    SendWithInvalidate(u32),
    /// RDMA WRITE.
    Write(Remote),
    /// RDMA WRITE with immediate data.
    WriteWithImmediate(Remote, u32),
    /// RDMA READ.
    Read(Remote),
    /// Compare and swap of an 8-byte word.
    CompareSwap {
        /// The word.
        remote: Remote,
        /// Expected value.
        compare: u64,
        /// Value to store if it is found.
        swap: u64,
    },
    /// Fetch and add on an 8-byte word.
    FetchAdd {
        /// The word.
        remote: Remote,
        /// What to add.
        add: u64,
    },
    /// Invalidates a key of our own.
    LocalInvalidate(u32),
    /// Binds a window.
    BindWindow {
        /// The window.
        window: Mw,
        /// The new remote key: the window's, but for the low byte, which the caller chooses.
        rkey: u32,
        /// What it covers.
        binding: Binding,
    },
}

/// Where the payload of a send request is.
#[derive(Clone, Copy, Debug)]
pub enum SendData<'a> {
    /// In registered memory, read when it is sent.
    Gather(&'a [Sge]),
    /// Here; copied when it is posted.
    Inline(&'a [&'a [u8]]),
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramDestination {
    /// The path.
    pub ah: Ah,
    /// The queue pair there.
    pub qpn: Qpn,
    /// Its key; a value with the high bit set stands for the sending queue pair's own.
    pub qkey: u32,
}

/// Flags of a send request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Completes with a completion also when it succeeds.
    pub signaled: bool,
    /// Asks for an event at the receiver.
    pub solicited: bool,
    /// Waits for earlier READs and atomics.
    pub fence: bool,
}

/// A request on a send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// What to do.
    pub operation: SendOperation,
    /// With what.
    pub data: SendData<'a>,
    /// How.
    pub flags: SendFlags,
    /// Where to, on a UD queue pair.
    pub destination: Option<DatagramDestination>,
}

/// A request on a receive queue.
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Where to put what arrives.
    pub scatter: &'a [Sge],
}

/// The path to a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// The destination's GID.
    pub destination: Gid,
    /// Our GID.
    pub source_gid_index: u8,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// TTL or hop limit; 0 is taken as 64 where a packet must leave the host.
    pub hop_limit: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Service level.
    pub service_level: u8,
    /// Rate limit code.
    pub static_rate: u8,
    /// Path bits; InfiniBand only.
    pub source_path_bits: u8,
    /// Destination LID; InfiniBand only.
    pub destination_lid: u16,
    /// Whether `destination` is meant at all: RoCE refuses a vector without.
    pub is_global: bool,
    /// Port, from 1.
    pub port: u8,
}
