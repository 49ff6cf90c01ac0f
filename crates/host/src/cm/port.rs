//! Port numbers, which the service keeps for all programs of a host.

use std::io;

use nic::cm::ListenAddress;
use wire::cm::PortSpace;

use super::ConnectionManager;

/// A reserved port number. It is given back when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct Port {
    pub(super) manager: ConnectionManager,
    /// What the service knows the reservation by.
    pub(super) token: u32,
    pub(super) space: PortSpace,
    pub(super) address: ListenAddress,
    pub(super) number: u16,
}

impl Port {
    /// The port number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The space it is a number of.
    pub fn space(&self) -> PortSpace {
        self.space
    }

    /// The address it is reserved on.
    pub fn address(&self) -> ListenAddress {
        self.address
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.manager.release(self.token);
    }
}

/// Why a port is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Somebody has it, on this address or one that overlaps.
    #[error("the port is in use")]
    InUse,
    /// It is below the first port that anybody may have.
    #[error("the port is only for privileged users")]
    NotPermitted,
    /// All ephemeral ports are taken, or the program has too many.
    #[error("there is no free port")]
    Exhausted,
    /// The service did not answer.
    #[error("the slot service does not answer: {0}")]
    Service(#[from] io::Error),
}
