//! What must hold of any bytes that arrive as a management datagram.
//!
//! Used by the fuzz target and by the test of `wire` that replays its corpus.

use wire::cm::{CmMad, CmMessage, CmRoute, IpCmHeader};

/// Takes `bytes` for a datagram of communication management.
pub fn check(bytes: &[u8]) {
    if let Some(header) = IpCmHeader::parse(bytes) {
        check_addresses(&header);
    }
    let Ok(mad) = CmMad::parse(bytes) else {
        return;
    };
    let out = mad.emit();
    assert_eq!(CmMad::parse(&out), Ok(mad));
    // Reserved bits are cleared; nothing else changes, and nothing moves.
    assert!(out.iter().zip(bytes).all(|(new, old)| new & !old == 0));
    if matches!(mad.message, CmMessage::Unknown { .. }) {
        assert_eq!(out[24..], bytes[24..]);
    }
    match CmRoute::of(&mad) {
        CmRoute::Nobody => assert!(matches!(mad.message, CmMessage::Unknown { .. })),
        CmRoute::ByPeer(peer) => assert_eq!(peer.to_be_bytes(), bytes[24..28]),
        CmRoute::ById(_) | CmRoute::ByService { .. } => {}
    }
}

fn check_addresses(header: &IpCmHeader) {
    assert_eq!(header.source.is_ipv4(), header.destination.is_ipv4());
    let mut out = [0xEE; IpCmHeader::LEN];
    assert_eq!(header.emit(&mut out), out.len());
    assert_eq!(IpCmHeader::parse(&out), Some(*header));
}
