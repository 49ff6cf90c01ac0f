//! What an IP header says of a packet, apart from the packet.

use std::net::IpAddr;

use nic::Arrival;
use wire::{Gid, Icrc, Ipv4, Ipv6, ROCE_V2_PORT, TrafficClass, Udp};

/// The headers below a packet, as far as a socket tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) source: IpAddr,
    pub(super) source_port: u16,
    pub(super) destination: IpAddr,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    pub(super) flow_label: u32,
    /// The interface that it arrived on; 0 of one that leaves.
    pub(super) interface: u32,
}

impl Envelope {
    pub(super) fn of(datagram: &io::udp::Datagram<'_>) -> Self {
        Self {
            source: datagram.source.ip(),
            source_port: datagram.source.port(),
            destination: datagram.destination,
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            flow_label: datagram.flow_label,
            interface: datagram.interface,
        }
    }

    /// The same for the adapter.
    pub(super) fn arrival(&self) -> Arrival {
        Arrival {
            source: gid(self.source),
            destination: gid(self.destination),
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
        }
    }

    /// The UDP header over `length` bytes from BTH to ICRC.
    pub(super) fn udp(&self, length: usize) -> Udp {
        Udp { source_port: self.source_port, destination_port: ROCE_V2_PORT, ..Udp::default() }.sealed(length)
    }

    /// The IP header over such a UDP datagram; the identification is the given one.
    pub(super) fn network(&self, length: usize, identification: u16) -> Network {
        let traffic_class = TrafficClass::from_byte(self.traffic_class);
        let udp_length = Udp::LEN + length;
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ip = Ipv4 {
                    traffic_class,
                    identification,
                    dont_fragment: true,
                    ttl: self.hop_limit,
                    source,
                    destination,
                    ..Ipv4::default()
                };
                Network::V4(ip.sealed(udp_length))
            }
            (source, destination) => {
                let ip = Ipv6 {
                    traffic_class,
                    flow_label: self.flow_label,
                    hop_limit: self.hop_limit,
                    source: v6(source),
                    destination: v6(destination),
                    ..Ipv6::default()
                };
                Network::V6(ip.sealed(udp_length))
            }
        }
    }

    /// The state of the ICRC before the BTH.
    pub(super) fn icrc(&self, length: usize, identification: u16) -> Icrc {
        let udp = self.udp(length);
        match self.network(length, identification) {
            Network::V4(ip) => Icrc::for_ipv4(&ip, &udp),
            Network::V6(ip) => Icrc::for_ipv6(&ip, &udp),
        }
    }
}

/// An IP header of either kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Network {
    V4(Ipv4),
    V6(Ipv6),
}

/// The GID of an address.
pub(super) fn gid(address: IpAddr) -> Gid {
    Gid::from(address)
}

fn v6(address: IpAddr) -> std::net::Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

#[cfg(test)]
impl Default for Envelope {
    fn default() -> Self {
        let nobody = IpAddr::from([127, 0, 0, 1]);
        Self {
            source: nobody,
            source_port: ROCE_V2_PORT,
            destination: nobody,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            interface: 0,
        }
    }
}
