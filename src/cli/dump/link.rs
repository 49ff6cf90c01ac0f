//! Link layers of captures: whatever carries IP or RoCE v1 becomes an Ethernet frame.

use std::borrow::Cow;

use pcap_file::DataLink;
use wire::{EtherType, Ethernet, Mac};

/// The packet as an Ethernet frame; nothing if its link layer is not known.
///
/// Other link layers than Ethernet are replaced by a header without addresses. Packets that were cut
/// short are returned as they are.
pub fn ethernet_frame(link: DataLink, bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (ethertype, header_len) = match link {
        DataLink::ETHERNET => return Some(bytes.into()),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => (ip_version(bytes)?, 0),
        DataLink::LINUX_SLL => (ethertype_at(bytes, 14)?, 16),
        DataLink::LINUX_SLL2 => (ethertype_at(bytes, 0)?, 20),
        // The address family before the packet is a number of the capturing system's own.
        DataLink::NULL | DataLink::LOOP => (ip_version(bytes.get(4..)?)?, 4),
        _ => return None,
    };
    let mut frame = vec![0; Ethernet::LEN];
    Ethernet { destination: Mac::default(), source: Mac::default(), ethertype }.emit(&mut frame);
    frame.extend_from_slice(bytes.get(header_len..)?);
    Some(frame.into())
}

fn ethertype_at(bytes: &[u8], at: usize) -> Option<EtherType> {
    let bytes = bytes.get(at..at + 2)?;
    Some(EtherType(u16::from_be_bytes([bytes[0], bytes[1]])))
}

fn ip_version(bytes: &[u8]) -> Option<EtherType> {
    match bytes.first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}
