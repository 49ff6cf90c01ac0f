//! Every header for every value that can stand on the wire, and bytes that are none.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Checksum, Deth, Ethernet, Frame, Grh, Headers, Ipv4, Ipv6, MadHeader,
    Opcode, Packet, ParseError, Psn, Reth, Udp, Vlan, Xrceth,
};

/// Parsing and emitting gives the same bytes, and parsing those the same value,
/// for bytes in which `$prepare` has set what the header prescribes.
macro_rules! header_survives {
    ($($name:ident: $header:ident, $prepare:expr;)+) => {
        proptest! {$(
            #[test]
            fn $name(mut bytes: [u8; $header::LEN], after: [u8; 3]) {
                let prepare: fn(&mut [u8; $header::LEN]) = $prepare;
                prepare(&mut bytes);
                let value = $header::parse(&[bytes.as_slice(), &after].concat()).unwrap();
                let mut out = [0xEE; $header::LEN + 1];
                prop_assert_eq!(value.emit(&mut out), $header::LEN);
                prop_assert_eq!(&out[..$header::LEN], &bytes);
                prop_assert_eq!(out[$header::LEN], 0xEE, "wrote too far");
                prop_assert_eq!($header::parse(&out).unwrap(), value);
                for len in 0..$header::LEN {
                    let is_truncated = matches!(
                        $header::parse(&bytes[..len]),
                        Err(ParseError::Truncated { needed: $header::LEN, available, .. }) if available == len
                    );
                    prop_assert!(is_truncated);
                }
            }
        )+}
    };
}

header_survives! {
    ethernet: Ethernet, |_| ();
    vlan: Vlan, |_| ();
    ipv4: Ipv4, |bytes| bytes[0] = 0x45;
    ipv6: Ipv6, |bytes| bytes[0] = 0x60 | bytes[0] & 0xF;
    grh: Grh, |bytes| bytes[0] = 0x60 | bytes[0] & 0xF;
    udp: Udp, |_| ();
    bth: Bth, |_| ();
    deth: Deth, |bytes| bytes[4] = 0;
    xrceth: Xrceth, |bytes| bytes[0] = 0;
    reth: Reth, |_| ();
    aeth: Aeth, |_| ();
    atomic_eth: AtomicEth, |_| ();
    atomic_ack_eth: AtomicAckEth, |_| ();
    mad: MadHeader, |_| ();
}

proptest! {
    #[test]
    fn headers(opcode: u8, mut bytes: [u8; Headers::MAX_LEN]) {
        bytes[0] = opcode;
        let Ok((headers, len)) = Headers::parse(&bytes) else {
            prop_assert_eq!(Headers::parse(&bytes), Err(ParseError::UnknownOpcode(opcode)));
            prop_assert!(!Opcode::from(opcode).is_known());
            return Ok(());
        };
        prop_assert!(headers.is_consistent());
        prop_assert_eq!(headers.len(), len);
        let mut out = [0xEE; Headers::MAX_LEN];
        prop_assert_eq!(headers.emit(&mut out), len);
        prop_assert_eq!(Headers::parse(&out).unwrap(), (headers, len));
    }

    #[test]
    fn packets_of_any_payload(payload in prop::collection::vec(any::<u8>(), 0..70)) {
        let packet = Packet::new(Headers::default(), &payload);
        let mut out = vec![0xEE; packet.len()];
        prop_assert_eq!(packet.emit(&mut out), out.len());
        prop_assert_eq!(out.len() % 4, 0);
        prop_assert_eq!(Packet::parse(&out).unwrap(), packet);
    }

    /// What a receiver sums up, pseudo header and all, comes out as ones.
    #[test]
    fn udp_checksums_satisfy_the_receiver(
        source: u128,
        destination: u128,
        parts: [Vec<u8>; 3],
    ) {
        let payload = parts.concat();
        let parts = parts.each_ref().map(Vec::as_slice);
        let udp = Udp::default().sealed(payload.len());
        let datagram = |checksum| {
            let mut out = vec![0; Udp::LEN];
            Udp { checksum, ..udp }.emit(&mut out);
            [out, payload.clone()].concat()
        };

        let v6 = datagram(udp.right_checksum_v6(source.into(), destination.into(), &parts));
        let pseudo = [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0, 0], &v6[4..6], &[0, 0, 0, 17]];
        prop_assert_eq!(Checksum::new().update(&pseudo.concat()).update(&v6).finish(), 0);

        let (source, destination) = (source as u32, destination as u32);
        let v4 = datagram(udp.right_checksum_v4(source.into(), destination.into(), &parts));
        let pseudo = [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0, 17], &v4[4..6]];
        prop_assert_eq!(Checksum::new().update(&pseudo.concat()).update(&v4).finish(), 0);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Headers::parse(&bytes);
        let _ = Packet::parse(&bytes);
        let _ = MadHeader::parse(&bytes);
        if let Ok(frame) = Frame::parse(&bytes) {
            prop_assert_eq!(frame.len(), bytes.len());
        }
    }

    #[test]
    fn distance_undoes_addition(start: u32, packets in 0u32..1 << 23) {
        let psn = Psn::new(start);
        prop_assert_eq!((psn + packets).distance(psn), packets as i32);
        prop_assert_eq!(psn.distance(psn + packets), -(packets as i32));
        prop_assert_eq!(psn.is_before(psn + packets), packets > 0);
        prop_assert_eq!(psn + packets - packets, psn);
    }
}

#[test]
fn wrong_versions_and_options_are_told() {
    use wire::Layer;
    let mut bytes = [0; Ipv6::LEN];
    bytes[0] = 0x65;
    assert_eq!(Ipv4::parse(&bytes), Err(ParseError::Version { layer: Layer::Ipv4, value: 6 }));
    bytes[0] = 0x46;
    assert_eq!(Ipv4::parse(&bytes), Err(ParseError::Options { len: 4 }));
    bytes[0] = 0x44;
    assert_eq!(Ipv4::parse(&bytes), Err(ParseError::Length { layer: Layer::Ipv4, value: 16 }));
    assert_eq!(Ipv6::parse(&bytes), Err(ParseError::Version { layer: Layer::Ipv6, value: 4 }));
    assert_eq!(Grh::parse(&bytes), Err(ParseError::Version { layer: Layer::Grh, value: 4 }));
}

#[test]
fn padding_longer_than_the_payload_is_told() {
    let mut bytes = [0; Bth::LEN + 2 + 4];
    bytes[0] = 0x04;
    bytes[1] = 3 << 4;
    let error = ParseError::Length { layer: wire::Layer::Bth, value: 3 };
    assert_eq!(Packet::parse(&bytes), Err(error));
    assert_eq!(error.to_string(), "BTH carries an impossible length of 3");
}

/// Headers are copied for every simulated packet: growing them should be a decision.
#[test]
fn headers_stay_small() {
    assert_eq!(size_of::<Headers>(), 80);
    assert_eq!(size_of::<wire::Icrc>(), 4);
}
