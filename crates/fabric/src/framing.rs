//! How many bytes a packet takes on the wire and in a buffer.

use wire::{Ethernet, Headers, Icrc, Ipv4, Udp};

/// The overheads of Ethernet, each of which can be switched off to compare with simulators that leave
/// it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Preamble and start delimiter: on the wire before the frame (IEEE 802.3, 3.2).
    pub preamble: u16,
    /// Idle time after a frame, in bytes: between two frames there are at least twelve.
    pub gap: u16,
    /// The frame check sequence.
    pub check: u16,
    /// A shorter frame is padded to this length, check sequence included.
    pub shortest: u16,
    /// If set, a packet is its payload and so many bytes, whatever its headers are.
    pub fixed: Option<u16>,
}

impl Framing {
    /// What Ethernet really does: 20 bytes around a frame of at least 64.
    pub const ETHERNET: Self = Self { preamble: 8, gap: 12, check: 4, shortest: 64, fixed: None };

    /// Headers and payload, and nothing else.
    pub const BARE: Self = Self { preamble: 0, gap: 0, check: 0, shortest: 0, fixed: None };

    /// Payload and so many bytes for each packet: 48 in the HPCC simulator, 64 in htsim.
    pub const fn fixed(bytes: u16) -> Self {
        Self { fixed: Some(bytes), ..Self::BARE }
    }

    /// The length of the frame of a RoCE v2 packet over IPv4: what lies in buffers.
    pub const fn frame(&self, headers: &Headers, payload: usize) -> usize {
        let pad = payload.wrapping_neg() & 0x3;
        self.frame_of(headers.len() + Icrc::LEN + pad, payload)
    }

    /// The length of a frame whose UDP datagram has `transport` bytes around its payload.
    pub(crate) const fn frame_of(&self, transport: usize, payload: usize) -> usize {
        if let Some(fixed) = self.fixed {
            return fixed as usize + payload;
        }
        let headers = Ethernet::LEN + Ipv4::LEN + Udp::LEN + transport;
        let frame = headers + payload + self.check as usize;
        if frame < self.shortest as usize { self.shortest as usize } else { frame }
    }

    /// The bytes that a frame occupies a wire for.
    pub const fn on_wire(&self, frame: usize) -> usize {
        self.preamble as usize + frame + self.gap as usize
    }

    /// The length of a PFC frame (IEEE 802.1Q, 36; 802.3, 31B: a MAC control frame has the least length).
    pub(crate) const PAUSE_FRAME: u32 = 64;
}

impl Default for Framing {
    fn default() -> Self {
        Self::ETHERNET
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Bth, Opcode, Operation, Service};

    fn middle() -> Headers {
        let opcode = Opcode::new(Service::Rc, Operation::WriteMiddle);
        Headers { bth: Bth { opcode, ..Bth::default() }, ..Headers::default() }
    }

    #[test]
    fn a_full_packet_has_the_size_it_has_on_ethernet() {
        // Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4; 20 around it.
        assert_eq!(Framing::ETHERNET.frame(&middle(), 4096), 4096 + 62);
        assert_eq!(Framing::ETHERNET.on_wire(4096 + 62), 4096 + 82);
        assert_eq!(Framing::ETHERNET.frame(&middle(), 1001), 1004 + 62);
    }

    #[test]
    fn a_short_packet_is_padded() {
        assert_eq!(Framing::ETHERNET.frame(&middle(), 0), 64);
        assert_eq!(Framing::BARE.frame(&middle(), 0), 58);
    }

    #[test]
    fn a_fixed_overhead_replaces_all_others() {
        assert_eq!(Framing::fixed(48).frame(&middle(), 1000), 1048);
        assert_eq!(Framing::fixed(48).on_wire(1048), 1048);
    }
}
