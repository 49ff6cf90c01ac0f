//! Finding the queue pair of a datagram service: service ID resolution (IBTA 12.11).

use super::{Data, IpCmHeader, PrivateData, ServiceId};
use crate::Qpn;
use crate::bytes::{put, u16_at, u32_at, u64_at};

/// SIDR REQ: asks which queue pair serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SidrReq {
    /// The sender's name for the request.
    pub request_id: u32,
    /// The partition.
    pub pkey: u16,
    /// What is asked for.
    pub service: ServiceId,
    /// For the program; of a request to a port it begins with an [`IpCmHeader`].
    pub private_data: PrivateData<{ SidrReq::PRIVATE_LEN }>,
}

impl SidrReq {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 216;

    /// The length of the private data of a request to a port.
    pub const IP_PRIVATE_LEN: usize = SidrReq::PRIVATE_LEN - IpCmHeader::LEN;

    pub(super) fn parse(data: &Data) -> Self {
        SidrReq {
            request_id: u32_at(data, 0),
            pkey: u16_at(data, 4),
            service: ServiceId(u64_at(data, 8)),
            private_data: PrivateData::at(data, 16),
        }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        put(out, 0, self.request_id.to_be_bytes());
        put(out, 4, self.pkey.to_be_bytes());
        put(out, 8, self.service.0.to_be_bytes());
        self.private_data.put(out, 16);
    }
}

/// SIDR REP: answers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SidrRep {
    /// The receiver's name for its request.
    pub request_id: u32,
    /// Whether the rest counts.
    pub status: SidrStatus,
    /// How much of `info` counts.
    pub info_len: u8,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// What was asked for.
    pub service: ServiceId,
    /// The queue key it wants.
    pub qkey: u32,
    /// More about the status: where to turn to, of a redirection.
    pub info: PrivateData<{ SidrRep::INFO_LEN }>,
    /// For the program.
    pub private_data: PrivateData<{ SidrRep::PRIVATE_LEN }>,
}

impl SidrRep {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 136;

    /// The length of the additional information.
    pub const INFO_LEN: usize = 72;

    pub(super) fn parse(data: &Data) -> Self {
        SidrRep {
            request_id: u32_at(data, 0),
            status: SidrStatus(data[4]),
            info_len: data[5],
            qpn: Qpn::new(u32_at(data, 8) >> 8),
            service: ServiceId(u64_at(data, 12)),
            qkey: u32_at(data, 20),
            info: PrivateData::at(data, 24),
            private_data: PrivateData::at(data, 96),
        }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        put(out, 0, self.request_id.to_be_bytes());
        out[4] = self.status.0;
        out[5] = self.info_len;
        put(out, 8, (self.qpn.value() << 8).to_be_bytes());
        put(out, 12, self.service.0.to_be_bytes());
        put(out, 20, self.qkey.to_be_bytes());
        self.info.put(out, 24);
        self.private_data.put(out, 96);
    }
}

/// How a resolution went (IBTA 12.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SidrStatus(pub u8);

impl SidrStatus {
    /// Queue pair and key are good.
    pub const VALID: SidrStatus = SidrStatus(0);
    /// Nobody serves this.
    pub const UNSUPPORTED: SidrStatus = SidrStatus(1);
    /// Who serves it does not want to.
    pub const REJECTED: SidrStatus = SidrStatus(2);
    /// There is no queue pair to spare.
    pub const NO_QP: SidrStatus = SidrStatus(3);
    /// Somebody else does.
    pub const REDIRECT: SidrStatus = SidrStatus(4);
    /// The class version is not known.
    pub const UNSUPPORTED_VERSION: SidrStatus = SidrStatus(5);
}
