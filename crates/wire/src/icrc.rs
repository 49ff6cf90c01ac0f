//! The invariant CRC: what protects a packet from end to end (IBTA vol. 1,
//! 7.8.1; RoCE v1: A16; RoCE v2: A17.3.3).
//!
//! It is the ordinary CRC-32 over the packet from the network header to the
//! last pad byte, with ones in place of every field that may change on the way
//! and of the link header, sent with its low byte first.
//!
//! [`Icrc`] is the state after the network headers. It is four bytes, to be
//! kept with a path: as long as addresses, ports and lengths stay the same, one
//! value starts every packet of it.
//!
//! ```
//! use wire::{Bth, Headers, Icrc, Ipv4, Udp};
//!
//! let payload = [7; 64];
//! let mut headers = [0; Headers::MAX_LEN];
//! let headers_len = Headers::default().emit(&mut headers);
//!
//! let udp = Udp::default().sealed(headers_len + payload.len() + Icrc::LEN);
//! let path = Icrc::for_ipv4(&Ipv4::default().sealed(udp.len.into()), &udp);
//! let icrc = path.transport(&headers[..headers_len]).update(&payload).finish();
//!
//! let packet = [&headers[..headers_len], &payload, &icrc].concat();
//! assert!(path.verify(&packet));
//! ```

use crc32fast::Hasher;

use crate::{Bth, Grh, Ipv4, Ipv6, Udp};

/// The CRC of eight bytes of ones: the link header that RoCE does not have, or
/// that a routed packet gets anew on every link.
const LINK_HEADER: u32 = 0x2144_DF1C;

/// Which byte of the BTH is masked: FECN, BECN and resv6 ("resv8a" of the
/// clause). The destination queue pair after it is not.
const CONGESTION: usize = 4;

/// The CRC over a part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icrc(u32);

impl Icrc {
    /// The length on the wire.
    pub const LEN: usize = 4;

    /// The state before the BTH of a RoCE v2 packet on IPv4. Of `udp` and `ip`
    /// all but the type of service, the time to live and the checksums counts, so
    /// lengths and identification must be final.
    pub fn for_ipv4(ip: &Ipv4, udp: &Udp) -> Self {
        let mut masked = [0; Ipv4::LEN + Udp::LEN];
        ip.emit(&mut masked);
        masked[1] = 0xFF;
        masked[8] = 0xFF;
        masked[10..12].fill(0xFF);
        emit_masked_udp(udp, &mut masked[Ipv4::LEN..]);
        Icrc(LINK_HEADER).update(&masked)
    }

    /// The state before the BTH of a RoCE v2 packet on IPv6. Of `udp` and `ip`
    /// all but the traffic class, the flow label, the hop limit and the checksum
    /// counts, so the lengths must be final.
    pub fn for_ipv6(ip: &Ipv6, udp: &Udp) -> Self {
        let mut masked = [0; Ipv6::LEN + Udp::LEN];
        ip.emit(&mut masked);
        mask_ipv6_like(&mut masked);
        emit_masked_udp(udp, &mut masked[Ipv6::LEN..]);
        Icrc(LINK_HEADER).update(&masked)
    }

    /// The state before the BTH of a packet with a GRH: RoCE v1, or routed InfiniBand.
    pub fn for_grh(grh: &Grh) -> Self {
        let mut masked = [0; Grh::LEN];
        grh.emit(&mut masked);
        mask_ipv6_like(&mut masked);
        Icrc(LINK_HEADER).update(&masked)
    }

    /// Adds the first bytes of the transport: the whole BTH at least, and as
    /// much of what follows it as is at hand.
    #[must_use]
    pub fn transport(self, bytes: &[u8]) -> Self {
        let Some((bth, rest)) = bytes.split_first_chunk::<{ Bth::LEN }>() else {
            debug_assert!(false, "{} bytes are no BTH", bytes.len());
            return self.update(bytes);
        };
        let mut masked = *bth;
        masked[CONGESTION] = 0xFF;
        self.update(&masked).update(rest)
    }

    /// Adds bytes after the BTH: payload and padding.
    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new_with_initial(self.0);
        hasher.update(bytes);
        Icrc(hasher.finalize())
    }

    /// The four bytes that end the packet.
    pub const fn finish(self) -> [u8; Self::LEN] {
        self.0.to_le_bytes()
    }

    /// Whether `packet`, from its BTH to its ICRC, is intact. What is too short
    /// to be a packet is not.
    pub fn verify(self, packet: &[u8]) -> bool {
        match packet.split_last_chunk() {
            Some((covered, icrc)) if covered.len() >= Bth::LEN => self.transport(covered).finish() == *icrc,
            _ => false,
        }
    }
}

fn emit_masked_udp(udp: &Udp, out: &mut [u8]) {
    let masked = Udp { checksum: 0xFFFF, ..*udp };
    masked.emit(out);
}

/// Masks traffic class, flow label and hop limit; the version stays.
fn mask_ipv6_like(header: &mut [u8]) {
    header[0] |= 0x0F;
    header[1..4].fill(0xFF);
    header[7] = 0xFF;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, Gid, TrafficClass};

    const PACKET: [u8; 20] = [
        0x04, 0x70, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x11, 0x80, 0, 0, 1, // BTH
        1, 2, 3, 4, 5, 0, 0, 0, // five bytes and their padding
    ];

    /// The CRC as it is defined.
    fn bit_by_bit(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
            }
        }
        !crc
    }

    fn udp() -> Udp {
        Udp::default().sealed(PACKET.len() + Icrc::LEN)
    }

    fn ipv4() -> Ipv4 {
        Ipv4::default().sealed(udp().len.into())
    }

    #[test]
    fn link_header_constant_is_the_crc_of_ones() {
        assert_eq!(crc32fast::hash(&[0xFF; 8]), LINK_HEADER);
    }

    #[test]
    fn what_routers_change_does_not_count() {
        let traffic_class = TrafficClass { dscp: 26, ecn: Ecn::CongestionExperienced };
        let sent = Icrc::for_ipv4(&ipv4(), &udp());
        let routed = Ipv4 { traffic_class, ttl: 3, checksum: 0x1234, ..ipv4() };
        let checksummed = Udp { checksum: 0x4321, ..udp() };
        assert_eq!(Icrc::for_ipv4(&routed, &checksummed), sent);

        let sent = Icrc::for_ipv6(&Ipv6::default(), &udp());
        let routed = Ipv6 { traffic_class, flow_label: 0xABCDE, hop_limit: 3, ..Ipv6::default() };
        assert_eq!(Icrc::for_ipv6(&routed, &checksummed), sent);

        let sent = Icrc::for_grh(&Grh::default());
        let routed = Grh { traffic_class: 0xB7, flow_label: 0xABCDE, hop_limit: 3, ..Grh::default() };
        assert_eq!(Icrc::for_grh(&routed), sent);
    }

    #[test]
    fn addresses_ports_and_lengths_count() {
        let sent = Icrc::for_ipv4(&ipv4(), &udp());
        let other = |ip: Ipv4, udp: Udp| assert_ne!(Icrc::for_ipv4(&ip, &udp), sent);
        let mut ip = ipv4();
        ip.identification = 1;
        other(ip, udp());
        other(ipv4().sealed(100), udp());
        let mut port = udp();
        port.source_port += 1;
        other(ipv4(), port);

        let grh = Grh { destination: Gid([1; 16]), ..Grh::default() };
        assert_ne!(Icrc::for_grh(&grh), Icrc::for_grh(&Grh::default()));
    }

    #[test]
    fn congestion_bits_are_masked_and_the_queue_pair_is_not() {
        let path = Icrc::for_ipv4(&ipv4(), &udp());
        let icrc = path.transport(&PACKET);
        for bit in 0..8 {
            let mut changed = PACKET;
            changed[CONGESTION] ^= 1 << bit;
            assert_eq!(path.transport(&changed), icrc);
        }
        for byte in (0..PACKET.len()).filter(|&byte| byte != CONGESTION) {
            let mut changed = PACKET;
            changed[byte] ^= 1;
            assert_ne!(path.transport(&changed), icrc, "byte {byte}");
        }
    }

    /// RoCE v1 against the clause taken literally: one bit at a time over the
    /// packet with its ones written in.
    #[test]
    fn grh_packets_have_the_crc_of_the_clause() {
        let mut covered = std::vec![0xFF; 8];
        covered.extend([0x6F, 0xFF, 0xFF, 0xFF, 0, 24, 0x1B, 0xFF]);
        covered.extend((0..32).collect::<std::vec::Vec<u8>>());
        covered.extend(PACKET);
        covered[8 + Grh::LEN + CONGESTION] = 0xFF;
        let crc = bit_by_bit(&covered);

        let address = |first: u8| Gid(core::array::from_fn(|at| first + at as u8));
        let grh = Grh { source: address(0), destination: address(16), ..Grh::default() };
        let path = Icrc::for_grh(&grh.sealed(PACKET.len() + Icrc::LEN));
        assert_eq!(path.transport(&PACKET).finish(), crc.to_le_bytes());
    }

    #[test]
    fn padding_counts_and_the_low_byte_goes_first() {
        let path = Icrc::for_ipv4(&ipv4(), &udp());
        let icrc = path.transport(&PACKET);
        assert_ne!(path.transport(&PACKET[..17]), icrc);
        assert_eq!(icrc.finish(), icrc.0.to_le_bytes());

        let whole = [PACKET.as_slice(), &icrc.finish()].concat();
        assert!(path.verify(&whole));
        let reversed = [PACKET.as_slice(), &icrc.0.to_be_bytes()].concat();
        assert!(!path.verify(&reversed));
    }

    #[test]
    fn payload_may_come_in_pieces() {
        let path = Icrc::for_ipv4(&ipv4(), &udp());
        for cut in Bth::LEN..PACKET.len() {
            let (first, second) = PACKET.split_at(cut);
            assert_eq!(path.transport(first).update(second), path.transport(&PACKET));
        }
    }

    #[test]
    fn every_length_agrees_with_the_definition() {
        let bytes: std::vec::Vec<u8> = (0..8192_u32).map(|at| (at * at / 8) as u8).collect();
        for len in (0..600).chain([1023, 1024, 1025, 2048, 4095, 4096, 4097, 8191, 8192]) {
            assert_eq!(Icrc(0).update(&bytes[..len]).0, bit_by_bit(&bytes[..len]), "{len} bytes");
        }
    }

    #[test]
    fn runts_do_not_verify() {
        let path = Icrc::for_ipv4(&ipv4(), &udp());
        for len in 0..Bth::LEN + Icrc::LEN {
            assert!(!path.verify(&[0; Bth::LEN + Icrc::LEN][..len]));
        }
    }
}
