//! No, and not yet (IBTA 12.6.7 and 12.6.6).

use core::fmt;

use super::{Data, PrivateData};
use crate::bytes::{put, u16_at, u32_at};

/// REJ: refuses a REQ or REP, or gives a connection up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rej {
    /// The sender's name for the connection; 0 if it has none.
    pub local_id: u32,
    /// The receiver's; 0 if the sender does not know it.
    pub remote_id: u32,
    /// What is refused.
    pub message: RejectedMessage,
    /// How much of `info` counts, 7 bits.
    pub info_len: u8,
    /// Why.
    pub reason: RejReason,
    /// More about the reason, or what would be acceptable.
    pub info: PrivateData<{ Rej::INFO_LEN }>,
    /// For the program.
    pub private_data: PrivateData<{ Rej::PRIVATE_LEN }>,
}

impl Rej {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 148;

    /// The length of the additional information.
    pub const INFO_LEN: usize = 72;

    pub(super) fn parse(data: &Data) -> Self {
        Rej {
            local_id: u32_at(data, 0),
            remote_id: u32_at(data, 4),
            message: RejectedMessage::from_bits(data[8] >> 6),
            info_len: data[9] >> 1,
            reason: RejReason(u16_at(data, 10)),
            info: PrivateData::at(data, 12),
            private_data: PrivateData::at(data, 84),
        }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        put(out, 0, self.local_id.to_be_bytes());
        put(out, 4, self.remote_id.to_be_bytes());
        out[8] = (self.message as u8) << 6;
        out[9] = self.info_len << 1;
        put(out, 10, self.reason.0.to_be_bytes());
        self.info.put(out, 12);
        self.private_data.put(out, 84);
    }

    /// The part of the additional information that counts.
    pub fn info(&self) -> &[u8] {
        &self.info[..usize::from(self.info_len).min(Self::INFO_LEN)]
    }
}

/// Which message a REJ or MRA answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RejectedMessage {
    /// A REQ.
    #[default]
    Req = 0,
    /// A REP.
    Rep = 1,
    /// Of a REJ: none, the sender gives up. Of an MRA: a LAP.
    Other = 2,
    /// Reserved.
    Reserved = 3,
}

impl RejectedMessage {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => RejectedMessage::Req,
            1 => RejectedMessage::Rep,
            2 => RejectedMessage::Other,
            _ => RejectedMessage::Reserved,
        }
    }
}

/// Why a connection does not come about (IBTA 12.6.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RejReason(pub u16);

macro_rules! reasons {
    ($($name:ident = $value:literal: $text:literal;)*) => {
        impl RejReason {
            $(#[doc = concat!("It is: ", $text, ".")] pub const $name: RejReason = RejReason($value);)*
        }

        impl fmt::Display for RejReason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($value => f.write_str($text),)*
                    unknown => write!(f, "reason {unknown}"),
                }
            }
        }
    };
}

reasons! {
    NO_QP = 1: "no queue pair available";
    NO_EEC = 2: "no end-to-end context available";
    NO_RESOURCES = 3: "no resources available";
    TIMEOUT = 4: "timeout";
    UNSUPPORTED = 5: "unsupported request";
    INVALID_COMM_ID = 6: "invalid communication ID";
    INVALID_COMM_INSTANCE = 7: "invalid communication instance";
    INVALID_SERVICE_ID = 8: "invalid service ID";
    INVALID_TRANSPORT = 9: "invalid transport service type";
    STALE_CONNECTION = 10: "stale connection";
    NO_RDC = 11: "no reliable datagram channel";
    INVALID_GID = 12: "primary remote port GID rejected";
    INVALID_LID = 13: "primary remote port LID rejected";
    INVALID_SERVICE_LEVEL = 14: "invalid primary service level";
    INVALID_TRAFFIC_CLASS = 15: "invalid primary traffic class";
    INVALID_HOP_LIMIT = 16: "invalid primary hop limit";
    INVALID_PACKET_RATE = 17: "invalid primary packet rate";
    INVALID_ALTERNATE_GID = 18: "alternate remote port GID rejected";
    INVALID_ALTERNATE_LID = 19: "alternate remote port LID rejected";
    INVALID_ALTERNATE_SERVICE_LEVEL = 20: "invalid alternate service level";
    INVALID_ALTERNATE_TRAFFIC_CLASS = 21: "invalid alternate traffic class";
    INVALID_ALTERNATE_HOP_LIMIT = 22: "invalid alternate hop limit";
    INVALID_ALTERNATE_PACKET_RATE = 23: "invalid alternate packet rate";
    PORT_AND_CM_REDIRECTION = 24: "redirection to another port and manager";
    PORT_REDIRECTION = 25: "redirection to another port";
    INVALID_MTU = 26: "invalid path MTU";
    INSUFFICIENT_RESPONDER_RESOURCES = 27: "insufficient responder resources";
    CONSUMER = 28: "rejected by the program";
    INVALID_RNR_RETRY = 29: "RNR retry count rejected";
    DUPLICATE_COMM_ID = 30: "duplicate local communication ID";
    INVALID_CLASS_VERSION = 31: "invalid class version";
    INVALID_FLOW_LABEL = 32: "invalid primary flow label";
    INVALID_ALTERNATE_FLOW_LABEL = 33: "invalid alternate flow label";
    VENDOR_OPTION = 35: "vendor option not supported";
}

/// MRA: the message arrived, the answer will take longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mra {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// What arrived.
    pub message: RejectedMessage,
    /// How long the answer may take from now on, an exponent of 5 bits.
    pub service_timeout: u8,
    /// For the program.
    pub private_data: PrivateData<{ Mra::PRIVATE_LEN }>,
}

impl Mra {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 222;

    pub(super) fn parse(data: &Data) -> Self {
        Mra {
            local_id: u32_at(data, 0),
            remote_id: u32_at(data, 4),
            message: RejectedMessage::from_bits(data[8] >> 6),
            service_timeout: data[9] >> 3,
            private_data: PrivateData::at(data, 10),
        }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        put(out, 0, self.local_id.to_be_bytes());
        put(out, 4, self.remote_id.to_be_bytes());
        out[8] = (self.message as u8) << 6;
        out[9] = self.service_timeout << 3;
        self.private_data.put(out, 10);
    }
}
