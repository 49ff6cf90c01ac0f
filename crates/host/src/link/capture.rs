//! A capture of what an adapter sends and receives, as a pcap file.
//!
//! Several programs may write to one file: each record is appended by a single write. A packet between
//! two of them is sent by one and received by the other, so packets that come from an address of this
//! machine are recorded by the sender alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::{EtherType, Ethernet, Ipv4, Ipv6, Udp};

use super::envelope::{Envelope, Network};

/// "pcap with nanoseconds", link type Ethernet, packets whole.
const FILE_HEADER: [u32; 6] = [0xA1B2_3C4D, 0x0004_0002, 0, 0, 262_144, 1];

/// An open capture file.
#[derive(Debug)]
pub struct Capture {
    file: File,
    record: Vec<u8>,
}

impl Capture {
    /// Makes an empty capture file, replacing what was there.
    pub fn create(path: &Path) -> io::Result<()> {
        let header: Vec<u8> = FILE_HEADER.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(path, header)
    }

    /// Opens a capture file to append to.
    pub fn append(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Self { file, record: Vec::new() })
    }

    /// Appends one packet, given from BTH to ICRC. A record that cannot be written is lost: a full disk
    /// is no reason to stop the traffic.
    pub(super) fn record(&mut self, envelope: &Envelope, identification: u16, packet: &[u8]) {
        let network = envelope.network(packet.len(), identification);
        let mut headers = [0; Ethernet::LEN + Ipv6::LEN + Udp::LEN];
        let length = emit_headers(envelope, &network, packet, &mut headers);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let frame = (length + packet.len()) as u32;
        self.record.clear();
        for word in [since.as_secs() as u32, since.subsec_nanos(), frame, frame] {
            self.record.extend(word.to_le_bytes());
        }
        self.record.extend(&headers[..length]);
        self.record.extend(packet);
        let _ = self.file.write_all(&self.record);
    }
}

fn emit_headers(envelope: &Envelope, network: &Network, packet: &[u8], out: &mut [u8]) -> usize {
    let mut udp = envelope.udp(packet.len());
    let ethertype = match network {
        Network::V4(_) => EtherType::IPV4,
        Network::V6(_) => EtherType::IPV6,
    };
    let mut length = Ethernet { ethertype, ..Ethernet::default() }.emit(out);
    match network {
        Network::V4(ip) => {
            udp.checksum = udp.right_checksum_v4(ip.source, ip.destination, &[packet]);
            length += Ipv4 { checksum: ip.right_checksum(), ..*ip }.emit(&mut out[length..]);
        }
        Network::V6(ip) => {
            udp.checksum = udp.right_checksum_v6(ip.source, ip.destination, &[packet]);
            length += ip.emit(&mut out[length..]);
        }
    }
    length + udp.emit(&mut out[length..])
}
