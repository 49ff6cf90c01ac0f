//! From a UDP payload to a packet, if it is one and is intact.

use std::net::IpAddr;

use nic::Payload;
use wire::{Bth, Headers, Icrc, Ipv4, Udp};

use super::envelope::Envelope;
use super::identification::Solver;

/// Why a UDP payload was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reject {
    /// Too short for its headers, or no transport header at all.
    Malformed,
    /// The ICRC is wrong.
    Checksum,
}

/// Checks and parses packets.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    solver: Solver,
}

impl Decoder {
    /// The headers and the payload with its pad.
    pub(super) fn decode<'a>(
        &mut self,
        envelope: &Envelope,
        packet: &'a [u8],
    ) -> Result<(Headers, Payload<'a>), Reject> {
        let (covered, icrc) = packet.split_last_chunk::<{ Icrc::LEN }>().ok_or(Reject::Malformed)?;
        let (headers, length) = Headers::parse(covered).map_err(|_| Reject::Malformed)?;
        self.explain(envelope, covered, *icrc).ok_or(Reject::Checksum)?;
        Ok((headers, Payload::Bytes(&covered[length..])))
    }

    /// The IPv4 identification that a packet was sent with, if it is intact.
    pub(super) fn identification(&mut self, envelope: &Envelope, packet: &[u8]) -> Option<u16> {
        let (covered, icrc) = packet.split_last_chunk::<{ Icrc::LEN }>()?;
        (covered.len() >= Bth::LEN).then(|| self.explain(envelope, covered, *icrc))?
    }

    /// The identification with which the ICRC is right.
    fn explain(&mut self, envelope: &Envelope, covered: &[u8], icrc: [u8; Icrc::LEN]) -> Option<u16> {
        let computed = envelope.icrc(covered.len() + Icrc::LEN, 0).transport(covered).finish();
        if computed == icrc {
            return Some(0);
        }
        let IpAddr::V4(_) = envelope.destination else { return None };
        const FIELD: usize = 4;
        let after = Ipv4::LEN - FIELD - 2 + Udp::LEN + covered.len();
        let difference = u32::from_le_bytes(computed) ^ u32::from_le_bytes(icrc);
        self.solver.solve(difference, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(envelope: &Envelope, identification: u16) -> Vec<u8> {
        let mut bytes = vec![0; Headers::MAX_LEN];
        let length = Headers::default().emit(&mut bytes);
        bytes.truncate(length);
        bytes.extend([7; 64]);
        let icrc = envelope.icrc(bytes.len() + Icrc::LEN, identification).transport(&bytes).finish();
        bytes.extend(icrc);
        bytes
    }

    #[test]
    fn any_identification_passes_and_damage_does_not() {
        let envelope = Envelope::default();
        let mut decoder = Decoder::default();
        for identification in [0, 1, 59_394] {
            let good = packet(&envelope, identification);
            let (headers, payload) = decoder.decode(&envelope, &good).unwrap();
            assert_eq!((headers, payload), (Headers::default(), Payload::Bytes(&[7; 64])));
            let mut bad = good.clone();
            bad[40] ^= 4;
            assert_eq!(decoder.decode(&envelope, &bad), Err(Reject::Checksum));
        }
    }

    #[test]
    fn runts_are_malformed() {
        let envelope = Envelope::default();
        let whole = packet(&envelope, 0);
        for length in 0..16 {
            assert_eq!(Decoder::default().decode(&envelope, &whole[..length]), Err(Reject::Malformed));
        }
    }
}
