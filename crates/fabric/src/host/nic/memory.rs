//! Memory of which only the use is noted: whose bytes arrived, and how many.

use nic::{Memory, Payload};

use crate::flow::FlowId;

/// The memory of a simulated host. Flow `f` is written to at address `f << 32`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowMemory {
    arrived: Vec<(FlowId, u64)>,
}

impl FlowMemory {
    /// The address that a flow is written to.
    pub const fn address(flow: FlowId) -> u64 {
        (flow.0 as u64) << 32
    }

    /// The length of all of it. Flows are numbered below 2^31.
    pub const LENGTH: u64 = 1 << 63;

    /// The flows of which something arrived since this was last asked, and the bytes.
    pub fn arrived(&mut self) -> impl Iterator<Item = (FlowId, u64)> {
        self.arrived.drain(..)
    }
}

impl Memory for FlowMemory {
    fn write(&mut self, address: u64, payload: Payload<'_>) {
        self.arrived.push((FlowId((address >> 32) as u32), payload.len() as u64));
    }

    fn compare_swap(&mut self, _address: u64, _compare: u64, _swap: u64) -> u64 {
        0
    }

    fn fetch_add(&mut self, _address: u64, _add: u64) -> u64 {
        0
    }
}
