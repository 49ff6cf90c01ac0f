//! The end of a connection (IBTA 12.6.10 and 12.6.11).

use super::{Data, PrivateData};
use crate::Qpn;
use crate::bytes::{put, u32_at};

/// DREQ: ends a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dreq {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The receiver's queue pair.
    pub remote_qpn: Qpn,
    /// For the program.
    pub private_data: PrivateData<{ Dreq::PRIVATE_LEN }>,
}

impl Dreq {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 220;

    pub(super) fn parse(data: &Data) -> Self {
        Dreq {
            local_id: u32_at(data, 0),
            remote_id: u32_at(data, 4),
            remote_qpn: Qpn::new(u32_at(data, 8) >> 8),
            private_data: PrivateData::at(data, 12),
        }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        put(out, 0, self.local_id.to_be_bytes());
        put(out, 4, self.remote_id.to_be_bytes());
        put(out, 8, (self.remote_qpn.value() << 8).to_be_bytes());
        self.private_data.put(out, 12);
    }
}

/// DREP: has ended a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Drep {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// For the program.
    pub private_data: PrivateData<{ Drep::PRIVATE_LEN }>,
}

impl Drep {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 224;

    pub(super) fn parse(data: &Data) -> Self {
        Drep { local_id: u32_at(data, 0), remote_id: u32_at(data, 4), private_data: PrivateData::at(data, 8) }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        put(out, 0, self.local_id.to_be_bytes());
        put(out, 4, self.remote_id.to_be_bytes());
        self.private_data.put(out, 8);
    }
}
