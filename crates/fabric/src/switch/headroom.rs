//! How much buffer a lossless priority needs beyond the point where it says XOFF.

use nic::Duration;

use crate::rate::Rate;

/// What decides how much still arrives after XOFF, in the terms that SONiC documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// The link's rate.
    pub rate: Rate,
    /// The link's propagation delay, one way.
    pub delay: Duration,
    /// The largest frame of the lossless priority: the peer may just have begun one.
    pub lossless_mtu: u32,
    /// The largest frame of any priority: the XOFF may have to wait for one of ours.
    pub port_mtu: u32,
    /// Bytes held in gearboxes, one way, and in MAC and PHY.
    pub device: u32,
    /// Bytes that arrive while the peer reacts; [`response_bytes`] has the bounds of IEEE 802.3.
    pub response: u32,
    /// Size of the cells that the buffer is cut into, in bytes; 1 if it is not.
    pub cell: u32,
}

impl Headroom {
    /// The largest frames allowed to the peer of such a link, and the slowest reaction.
    pub const fn new(rate: Rate, delay: Duration, lossless_mtu: u32, port_mtu: u32) -> Self {
        Self { rate, delay, lossless_mtu, port_mtu, device: 0, response: response_bytes(rate), cell: 1 }
    }

    /// The headroom in bytes of buffer: one lossless frame, and what arrives while the XOFF waits,
    /// travels, is obeyed, and the last bit comes back; as cells filled by the smallest frames.
    pub const fn bytes(&self) -> u64 {
        let cable = self.rate.bytes_in(self.delay);
        let arriving = self.port_mtu as u64 + 2 * cable + self.device as u64 + self.response as u64;
        self.lossless_mtu as u64 + arriving * self.worst_cells() / SMALLEST
    }

    /// The bytes of buffer that a frame of the smallest size occupies.
    const fn worst_cells(&self) -> u64 {
        let cell = self.cell as u64;
        if cell <= 1 { SMALLEST } else { SMALLEST.div_ceil(cell) * cell }
    }
}

/// The smallest frame.
const SMALLEST: u64 = 64;

/// Bits of a pause quantum (IEEE 802.3, 31B.2), in bytes.
pub(crate) const QUANTUM: u32 = 64;

/// How many quanta a port of this rate may take to obey a pause (IEEE 802.3, annex 31B.3.7). Rates that
/// the annex does not have are taken as the next higher; 800 Gb/s as twice 400.
pub const fn response_quanta(rate: Rate) -> u32 {
    match rate.bits_per_second() / 1_000_000_000 {
        0..=10 => 67,
        11..=25 => 80,
        26..=40 => 118,
        41..=50 => 147,
        51..=100 => 394,
        101..=200 => 453,
        201..=400 => 905,
        _ => 1810,
    }
}

/// The bytes that pass in that time.
pub const fn response_bytes(rate: Rate) -> u32 {
    response_quanta(rate) * QUANTUM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_100g_port_with_300_m_of_cable_needs_73_kb() {
        let headroom = Headroom::new(Rate::gbps(100), Duration::from_nanos(1500), 1500, 9100);
        assert_eq!(headroom.bytes(), 1500 + 9100 + 2 * 18_750 + 394 * 64);
        assert_eq!(headroom.bytes(), 73_316);
    }

    #[test]
    fn cells_multiply_what_small_frames_occupy() {
        let whole = Headroom::new(Rate::gbps(100), Duration::from_nanos(500), 1500, 1500);
        let cells = Headroom { cell: 96, ..whole };
        assert_eq!((cells.bytes() - 1500) * 64 / 96, whole.bytes() - 1500);
    }
}
