//! What must hold of any bytes that arrive.
//!
//! Used by the fuzz target and by the test of `wire` that replays its corpus.

use wire::{Bth, Extended, Frame, Headers, Opcode, Packet};

/// Takes `bytes` for a frame, for a packet of the transport, and for headers alone.
pub fn check(bytes: &[u8]) {
    check_frame(bytes);
    check_packet(bytes);
    check_headers(bytes);
}

/// A frame is emitted as it came, and can be made one that verifies.
fn check_frame(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(bytes) else {
        return;
    };
    let verdict = frame.verify_icrc(bytes);
    assert_eq!(verdict.is_some(), frame.packet().is_some());

    let mut expected = bytes.to_vec();
    if let Some(packet) = frame.packet() {
        let start = bytes.len() - frame.trailer.len() - packet.len();
        clear_reserved(&packet.headers, &mut expected[start..]);
    }
    assert_eq!(emit_frame(&frame), expected);
    check_seal(frame, verdict);
}

fn check_seal(mut frame: Frame<'_>, verdict: Option<bool>) {
    frame.seal();
    let bytes = emit_frame(&frame);
    // Lengths are 16 bits; what is longer cannot be sent and need not verify.
    if verdict.is_some() && bytes.len() <= usize::from(u16::MAX) {
        let sealed = Frame::parse(&bytes).expect("a sealed frame parses");
        assert_eq!(sealed, frame);
        assert_eq!(sealed.verify_icrc(&bytes), Some(true));
    }
}

/// The parts of a packet are the packet.
fn check_packet(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    let mut expected = bytes.to_vec();
    clear_reserved(&packet.headers, &mut expected);
    let mut out = vec![0xEE; packet.len()];
    assert_eq!(packet.emit(&mut out), out.len());
    assert_eq!(out, expected);
}

/// Headers are as long as they say, and are emitted as they came.
fn check_headers(bytes: &[u8]) {
    let Ok((headers, len)) = Headers::parse(bytes) else {
        return;
    };
    assert!(headers.is_consistent());
    assert_eq!(headers.len(), len);
    let mut expected = bytes[..len].to_vec();
    clear_reserved(&headers, &mut expected);
    let mut out = [0xEE; Headers::MAX_LEN];
    assert_eq!(headers.emit(&mut out), len);
    assert_eq!(out[..len], expected);
}

fn emit_frame(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = vec![0xEE; frame.len()];
    assert_eq!(frame.emit(&mut out), out.len());
    out
}

/// Clears the reserved bytes that the values do not keep, in a packet that begins with its BTH.
fn clear_reserved(headers: &Headers, packet: &mut [u8]) {
    if headers.xrceth.is_some() {
        packet[Bth::LEN] = 0;
    }
    if let Extended::Deth(_) = headers.extended {
        packet[Bth::LEN + 4] = 0;
    }
    if headers.bth.opcode == Opcode::CNP {
        packet[Bth::LEN..headers.len()].fill(0);
    }
}
