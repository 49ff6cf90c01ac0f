//! The answer to a REQ (IBTA 12.6.8), and the answer to that (12.6.9).

use super::{Data, PrivateData};
use crate::bytes::{bit, put, u32_at, u64_at};
use crate::{Psn, Qpn};

/// REP: accepts a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rep {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's, from its REQ.
    pub remote_id: u32,
    /// The sender's queue key, for datagrams.
    pub qkey: u32,
    /// The sender's queue pair.
    pub qpn: Qpn,
    /// Vendor of the enhanced connection establishment that is agreed to, 24 bits; 0 is none.
    pub vendor_id: u32,
    /// The sender's end-to-end context; the target queue pair of an XRC connection.
    pub ee_context: Qpn,
    /// The first PSN that the sender expects: the *receiver* begins to send with it (IBTA 12.7).
    pub starting_psn: Psn,
    /// READs and atomics that the sender takes at once.
    pub responder_resources: u8,
    /// READs and atomics that the sender means to have outstanding.
    pub initiator_depth: u8,
    /// How long the sender's adapter takes to acknowledge, an exponent of 5 bits.
    pub target_ack_delay: u8,
    /// What became of the alternate path, 2 bits: 0 accepted, 1 not supported, 2 rejected.
    pub failover: u8,
    /// Whether the sender's receive queue tells its credits.
    pub flow_control: bool,
    /// Retries after RNR that the receiver's queue pair shall make, 3 bits.
    pub rnr_retry_count: u8,
    /// Whether the sender's queue pair takes receives from a shared queue.
    pub srq: bool,
    /// The sender's adapter.
    pub ca_guid: u64,
    /// For the program.
    pub private_data: PrivateData<{ Rep::PRIVATE_LEN }>,
}

impl Rep {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 196;

    pub(super) fn parse(data: &Data) -> Self {
        Rep {
            local_id: u32_at(data, 0),
            remote_id: u32_at(data, 4),
            qkey: u32_at(data, 8),
            qpn: Qpn::new(u32_at(data, 12) >> 8),
            // In the gaps behind three numbers of 24 bits.
            vendor_id: u32::from_be_bytes([0, data[15], data[19], data[23]]),
            ee_context: Qpn::new(u32_at(data, 16) >> 8),
            starting_psn: Psn::new(u32_at(data, 20) >> 8),
            responder_resources: data[24],
            initiator_depth: data[25],
            target_ack_delay: data[26] >> 3,
            failover: data[26] >> 1 & 3,
            flow_control: data[26] & 1 != 0,
            rnr_retry_count: data[27] >> 5,
            srq: data[27] & 0x10 != 0,
            ca_guid: u64_at(data, 28),
            private_data: PrivateData::at(data, 36),
        }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        let [_, high, middle, low] = self.vendor_id.to_be_bytes();
        put(out, 0, self.local_id.to_be_bytes());
        put(out, 4, self.remote_id.to_be_bytes());
        put(out, 8, self.qkey.to_be_bytes());
        put(out, 12, (self.qpn.value() << 8 | u32::from(high)).to_be_bytes());
        put(out, 16, (self.ee_context.value() << 8 | u32::from(middle)).to_be_bytes());
        put(out, 20, (self.starting_psn.value() << 8 | u32::from(low)).to_be_bytes());
        out[24] = self.responder_resources;
        out[25] = self.initiator_depth;
        out[26] = self.target_ack_delay << 3 | (self.failover & 3) << 1 | bit(self.flow_control, 0);
        out[27] = self.rnr_retry_count << 5 | bit(self.srq, 4);
        put(out, 28, self.ca_guid.to_be_bytes());
        self.private_data.put(out, 36);
    }
}

/// RTU: the REP arrived, the connection is ready to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rtu {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// For the program.
    pub private_data: PrivateData<{ Rtu::PRIVATE_LEN }>,
}

impl Rtu {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 224;

    pub(super) fn parse(data: &Data) -> Self {
        Rtu { local_id: u32_at(data, 0), remote_id: u32_at(data, 4), private_data: PrivateData::at(data, 8) }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        put(out, 0, self.local_id.to_be_bytes());
        put(out, 4, self.remote_id.to_be_bytes());
        self.private_data.put(out, 8);
    }
}
