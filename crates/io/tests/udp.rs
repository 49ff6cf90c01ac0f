//! Datagrams over loopback and through a tun device.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU8, NonZeroU16};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io::udp::{BindError, BufferSizes, Family, Piece, ReceiveBatch, SendError, Source, Transmit};
use io::udp::{MAX_SEGMENTS, MAX_TRANSMIT_BYTES, UdpOptions, UdpSocket};
use support::{Tun, fail_system_call, in_namespace, interface_index, tc};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// A datagram received, owned.
#[derive(Debug, PartialEq)]
struct Received {
    source: SocketAddr,
    destination: IpAddr,
    interface: u32,
    traffic_class: u8,
    hop_limit: u8,
    flow_label: u32,
    packets: Vec<Vec<u8>>,
}

fn to(ip: IpAddr, socket: &UdpSocket) -> SocketAddr {
    (ip, socket.port()).into()
}

fn transmit<'a>(destination: SocketAddr, segment_size: u16, pieces: &'a [Piece<'a>]) -> Transmit<'a> {
    Transmit {
        destination,
        source: None,
        traffic_class: 0,
        hop_limit: None,
        segment_size: NonZeroU16::new(segment_size),
        pieces,
    }
}

/// Receives until there are `count` packets, at most 5 s.
fn receive(socket: &UdpSocket, count: usize) -> Vec<Received> {
    let mut batch = ReceiveBatch::new(8);
    let mut received = Vec::new();
    let patience = Instant::now() + Duration::from_secs(5);
    while received.iter().map(|r: &Received| r.packets.len()).sum::<usize>() < count {
        if socket.receive(&mut batch).unwrap() == 0 {
            assert!(Instant::now() < patience, "only received {received:?}");
            support::wait_readable(socket);
        }
        received.extend(batch.datagrams().map(|d| Received {
            source: d.source,
            destination: d.destination,
            interface: d.interface,
            traffic_class: d.traffic_class,
            hop_limit: d.hop_limit,
            flow_label: d.flow_label,
            packets: d.segments().map(<[u8]>::to_vec).collect(),
        }));
    }
    received
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8).collect()
}

#[test]
fn a_segmented_send_arrives_as_packets_with_their_header_fields() {
    let (sender, receiver) = (UdpSocket::bind(0).unwrap(), UdpSocket::bind(0).unwrap());
    assert_eq!(sender.family(), Family::Dual);
    let bytes = pattern(4096 * 3 + 100);
    let pieces =
        [Piece::new(&bytes[..10]), Piece::new(&[]), Piece::new(&bytes[10..9000]), Piece::new(&bytes[9000..])];
    for ip in [V4, V6] {
        let sent = Transmit {
            source: Some(Source { address: ip, interface: 0 }),
            traffic_class: 0xA7,
            hop_limit: NonZeroU8::new(33),
            ..transmit(to(ip, &receiver), 4096, &pieces)
        };
        sender.send(&sent).unwrap();
        let received = receive(&receiver, 4);
        let packets: Vec<_> = received.iter().flat_map(|r| r.packets.clone()).collect();
        assert_eq!(packets, bytes.chunks(4096).collect::<Vec<_>>());
        let first = &received[0];
        assert_eq!((first.source, first.destination), (to(ip, &sender), ip));
        assert_eq!((first.traffic_class, first.hop_limit), (0xA7, 33));
        assert_eq!(first.interface, interface_index("lo"));
        if receiver.receive_offload() {
            assert_eq!(received.len(), 1, "loopback carries a run whole");
        }
    }
}

#[test]
fn the_flow_label_is_carried() {
    let (sender, receiver) = (UdpSocket::bind(0).unwrap(), UdpSocket::bind(0).unwrap());
    let SocketAddr::V6(mut destination) = to(V6, &receiver) else { unreachable!() };
    destination.set_flowinfo(0xABCDE);
    let sent = Transmit { traffic_class: 0x42, ..transmit(destination.into(), 0, &[]) };
    sender.send(&sent).unwrap();
    let received = &receive(&receiver, 1)[0];
    assert_eq!((received.flow_label, received.traffic_class), (0xABCDE, 0x42));
    assert_eq!(received.packets, [[0u8; 0]]);
}

#[test]
fn ipv6_datagrams_without_a_checksum_are_received() {
    let receiver = UdpOptions::default().bind(0).unwrap();
    let sender = std::net::UdpSocket::bind((V6, 0)).unwrap();
    let on = 1i32;
    // SAFETY: the kernel reads an int at the address of one.
    let set = unsafe {
        let length = size_of_val(&on) as libc::socklen_t;
        libc::setsockopt(
            sender.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_NO_CHECK6_TX,
            (&raw const on).cast(),
            length,
        )
    };
    assert_eq!(set, 0);
    sender.send_to(b"as adapters do", to(V6, &receiver)).unwrap();
    assert_eq!(receive(&receiver, 1)[0].packets, [b"as adapters do"]);
}

#[test]
fn the_source_address_can_be_chosen() {
    let (sender, receiver) = (UdpSocket::bind(0).unwrap(), UdpSocket::bind(0).unwrap());
    let source = IpAddr::from([127, 1, 2, 3]);
    let sent = Transmit {
        source: Some(Source { address: source, interface: 0 }),
        ..transmit(to(V4, &receiver), 0, &[])
    };
    sender.send(&sent).unwrap();
    assert_eq!(receive(&receiver, 1)[0].source, to(source, &sender));

    let foreign = Source { address: [192, 0, 2, 1].into(), interface: 0 };
    let refused = sender.send(&Transmit { source: Some(foreign), ..sent });
    assert!(matches!(refused, Err(SendError::Unreachable(_))), "{refused:?}");
}

#[test]
fn a_full_run_and_a_fragmented_list_of_pieces_fit() {
    let (sender, receiver) = (UdpSocket::bind(0).unwrap(), UdpSocket::bind(0).unwrap());
    let bytes = pattern(MAX_SEGMENTS * 1000);
    let pieces: Vec<_> = bytes.chunks(19).map(Piece::new).collect();
    assert!(pieces.len() > 3000);
    sender.send(&transmit(to(V6, &receiver), 1000, &pieces)).unwrap();
    let packets: Vec<_> = receive(&receiver, MAX_SEGMENTS).into_iter().flat_map(|r| r.packets).collect();
    assert_eq!(packets.concat(), bytes);
    assert_eq!(packets.len(), MAX_SEGMENTS);
}

#[test]
fn the_limits_of_a_transmit_are_kept() {
    let (sender, receiver) = (UdpSocket::bind(0).unwrap(), UdpSocket::bind(0).unwrap());
    let bytes = vec![0; MAX_TRANSMIT_BYTES + 1];
    for (length, size) in [(MAX_SEGMENTS * 100 + 1, 100), (bytes.len(), 4096)] {
        let result = sender.send(&transmit(to(V4, &receiver), size, &[Piece::new(&bytes[..length])]));
        assert!(matches!(result, Err(SendError::TooLarge)), "{length}: {result:?}");
    }
    sender.send(&transmit(to(V4, &receiver), 4096, &[Piece::new(&bytes[1..])])).unwrap();
    assert_eq!(receive(&receiver, 16).iter().map(|r| r.packets.len()).sum::<usize>(), 16);
}

#[test]
fn a_batch_goes_to_many_destinations_in_order() {
    let sender = UdpSocket::bind(0).unwrap();
    let receivers = [UdpSocket::bind(0).unwrap(), UdpSocket::bind(0).unwrap()];
    let payloads: Vec<_> = (0..100u8).map(|i| [i; 30]).collect();
    let pieces: Vec<_> = payloads.iter().map(|p| [Piece::new(p)]).collect();
    let destination = |i: usize| to(if i.is_multiple_of(4) { V4 } else { V6 }, &receivers[i % 2]);
    let transmits: Vec<_> = pieces.iter().enumerate().map(|(i, p)| transmit(destination(i), 10, p)).collect();
    assert_eq!(sender.send_batch(&transmits).unwrap(), 100);
    for (parity, receiver) in receivers.iter().enumerate() {
        let packets: Vec<_> = receive(receiver, 150).into_iter().flat_map(|r| r.packets).collect();
        let expected: Vec<_> = (parity as u8..100).step_by(2).flat_map(|i| [[i; 10]; 3]).collect();
        assert_eq!(packets, expected);
    }
    assert_eq!(sender.send_batch(&[]).unwrap(), 0);
}

#[test]
fn a_batch_stops_at_what_cannot_be_sent() {
    let (sender, receiver) = (UdpSocket::bind(0).unwrap(), UdpSocket::bind(0).unwrap());
    let bytes = vec![0; 70_000];
    let (small, large) = ([Piece::new(&bytes[..5])], [Piece::new(&bytes)]);
    let good = transmit(to(V4, &receiver), 0, &small);
    let bad = transmit(to(V4, &receiver), 0, &large);
    assert_eq!(sender.send_batch(&[good, good, bad, good]).unwrap(), 2);
    let result = sender.send_batch(&[bad, good]);
    assert!(matches!(result, Err(SendError::TooLarge)), "{result:?}");
    assert_eq!(receive(&receiver, 2).iter().map(|r| r.packets.len()).sum::<usize>(), 2);
}

#[test]
fn a_port_in_use_is_named() {
    let first = UdpSocket::bind(0).unwrap();
    let second = UdpSocket::bind(first.port());
    assert!(matches!(second, Err(BindError::PortInUse { port }) if port == first.port()), "{second:?}");
}

#[test]
fn an_ipv4_only_rival_is_noticed() {
    let rival = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = rival.local_addr().unwrap().port();
    assert!(matches!(UdpSocket::bind(port), Err(BindError::PortInUse { .. })));
}

#[test]
fn what_nobody_receives_in_time_is_counted() {
    let buffers = BufferSizes { receive: 4096, send: 1 << 20 };
    let receiver = UdpOptions { buffers, ..UdpOptions::default() }.bind(0).unwrap();
    let sender = UdpSocket::bind(0).unwrap();
    let bytes = [0; 1000];
    for _ in 0..1000 {
        sender.send(&transmit(to(V4, &receiver), 0, &[Piece::new(&bytes)])).unwrap();
    }
    // The count travels with the next datagram that does fit.
    let mut batch = ReceiveBatch::new(8);
    while receiver.receive(&mut batch).unwrap() > 0 {}
    sender.send(&transmit(to(V4, &receiver), 0, &[])).unwrap();
    receive(&receiver, 1);
    let drops = receiver.counters().receive_drops;
    assert!((900..1000).contains(&drops), "{drops} dropped");
}

#[test]
fn adopting_keeps_the_port_and_refuses_what_is_no_udp_socket() {
    let socket = UdpSocket::bind(0).unwrap();
    let port = socket.port();
    let socket = UdpSocket::from_fd(socket.into()).unwrap();
    assert_eq!(socket.port(), port);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(UdpSocket::from_fd(listener.into()).is_err());
    assert!(UdpSocket::from_fd(std::fs::File::open("/dev/null").unwrap().into()).is_err());
}

#[test]
fn only_who_joined_receives_multicast() {
    in_namespace("only_who_joined_receives_multicast", || {
        let _tun = Tun::new("tun0", 1500, &["10.7.0.1/24", "fd07::1/64"]);
        let interface = interface_index("tun0");
        let options = UdpOptions::default();
        let (joined, other) = (options.bind(5000).unwrap(), options.bind(5001).unwrap());
        let groups: [(IpAddr, IpAddr); 2] = [
            ("239.1.2.3".parse().unwrap(), [10, 7, 0, 1].into()),
            ("ff15::77".parse().unwrap(), "fd07::1".parse().unwrap()),
        ];
        for (group, address) in groups {
            joined.join(group, interface).unwrap();
            let source = Some(Source { address, interface });
            for destination in [to(group, &joined), to(group, &other)] {
                other.send(&Transmit { source, ..transmit(destination, 0, &[]) }).unwrap();
            }
            let received = &receive(&joined, 1)[0];
            assert_eq!((received.destination, received.interface), (group, interface));
            joined.leave(group, interface).unwrap();
            other.send(&Transmit { source, ..transmit(to(group, &joined), 0, &[]) }).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut batch = ReceiveBatch::new(1);
        assert_eq!(joined.receive(&mut batch).unwrap(), 0, "left the group");
        assert_eq!(other.receive(&mut batch).unwrap(), 0, "never joined");
    });
}

/// (identification, flags and offset, traffic class, time to live) of an IPv4 packet.
fn ipv4_fields(packet: &[u8]) -> (u16, u16, u8, u8) {
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (word(4), word(6), packet[1], packet[8])
}

#[test]
fn the_identification_is_the_index_in_the_transmit() {
    in_namespace("the_identification_is_the_index_in_the_transmit", || {
        let mut tun = Tun::new("tun0", 9000, &["10.9.0.1/24"]);
        let sender = UdpSocket::bind(4791).unwrap();
        let bytes = pattern(450);
        let pieces = [Piece::new(&bytes)];
        let run =
            Transmit { traffic_class: 0x66, ..transmit("10.9.0.2:4791".parse().unwrap(), 100, &pieces) };
        let alone = Transmit { segment_size: None, ..run };
        for sent in [run, alone, alone, run] {
            sender.send(&sent).unwrap();
        }
        sender.send_batch(&[alone, run]).unwrap();
        let fields: Vec<_> = tun.udp_packets(18).iter().map(|p| ipv4_fields(p)).collect();
        let expected =
            [0, 1, 2, 3, 4, 0, 0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4].map(|id| (id, 0x4000, 0x66, 64));
        assert_eq!(fields, expected);
    });
}

#[test]
fn ipv6_packets_are_cut_alike_and_never_fragmented() {
    in_namespace("ipv6_packets_are_cut_alike_and_never_fragmented", || {
        let mut tun = Tun::new("tun0", 1500, &["fd09::1/64", "10.9.0.1/24"]);
        let sender = UdpSocket::bind(0).unwrap();
        let bytes = pattern(3000);
        let destination: SocketAddr = "[fd09::2]:4791".parse().unwrap();
        sender.send(&transmit(destination, 1024, &[Piece::new(&bytes)])).unwrap();
        let packets = tun.udp_packets(3);
        assert_eq!(packets.iter().map(|p| &p[48..]).collect::<Vec<_>>().concat(), bytes);
        for destination in [destination, "10.9.0.2:4791".parse().unwrap()] {
            let result = sender.send(&transmit(destination, 0, &[Piece::new(&bytes[..1500])]));
            assert!(matches!(result, Err(SendError::TooLarge)), "{result:?}");
        }
    });
}

#[test]
fn a_run_of_packets_beyond_the_mtu_is_told_from_missing_offload() {
    in_namespace("a_run_of_packets_beyond_the_mtu_is_told_from_missing_offload", || {
        let _tun = Tun::new("tun0", 1500, &["10.9.0.1/24"]);
        let sender = UdpSocket::bind(0).unwrap();
        let bytes = pattern(4000);
        let (run, alone) = ([Piece::new(&bytes)], [Piece::new(&bytes[..2000])]);
        let destination = "10.9.0.2:4791".parse().unwrap();
        let result = sender.send(&transmit(destination, 2000, &run));
        // Linux before 6.14 answers EINVAL here, which might as well mean the other.
        assert!(
            matches!(result, Err(SendError::TooLarge | SendError::SegmentationUnsupported)),
            "{result:?}"
        );
        let result = sender.send(&transmit(destination, 0, &alone));
        assert!(matches!(result, Err(SendError::TooLarge)), "{result:?}");
        assert!(sender.segmentation(destination.ip()));
    });
}

#[test]
fn a_path_without_offload_is_reported_and_remembered() {
    let sender = UdpSocket::bind(0).unwrap();
    let receiver = UdpSocket::bind(0).unwrap();
    let bytes = pattern(1000);
    let pieces = [Piece::new(&bytes)];
    let run = transmit(to(V4, &receiver), 100, &pieces);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // What the kernel answers for a device without checksum offload, or under IPsec.
            fail_system_call(libc::SYS_sendmsg, None, libc::EIO);
            let result = sender.send(&run);
            assert!(matches!(result, Err(SendError::SegmentationUnsupported)), "{result:?}");
        });
    });
    assert!(!sender.segmentation(V4) && sender.segmentation(V6));
    let result = sender.send(&run);
    assert!(matches!(result, Err(SendError::SegmentationUnsupported)), "{result:?}");
    assert_eq!(sender.counters().offload_refusals, 1);
    sender.send(&Transmit { segment_size: None, ..run }).unwrap();
    sender.send(&Transmit { destination: to(V6, &receiver), ..run }).unwrap();
    assert_eq!(receive(&receiver, 11).iter().map(|r| r.packets.len()).sum::<usize>(), 11);
}

#[test]
fn a_device_without_checksums_takes_packets_one_by_one_at_least() {
    in_namespace("a_device_without_checksums_takes_packets_one_by_one_at_least", || {
        let mut tun = Tun::with_checksums("tun0", 1500, &["10.9.0.1/24"], false);
        let sender = UdpSocket::bind(0).unwrap();
        let bytes = pattern(1000);
        let pieces = [Piece::new(&bytes)];
        let run = transmit("10.9.0.2:1".parse().unwrap(), 100, &pieces);
        // Linux before 6.11 does not segment for such a device.
        let packets = match sender.send(&run) {
            Ok(()) => 10,
            Err(SendError::SegmentationUnsupported) => {
                assert!(!sender.segmentation(run.destination.ip()));
                sender.send(&Transmit { segment_size: None, ..run }).unwrap();
                1
            }
            Err(error) => panic!("{error}"),
        };
        for (index, packet) in tun.udp_packets(packets).iter().enumerate() {
            assert_eq!(ipv4_fields(packet), (index as u16, 0x4000, 0, 64));
        }
    });
}

#[test]
fn offload_can_be_declined() {
    let socket = UdpOptions { segmentation: false, ..UdpOptions::default() }.bind(0).unwrap();
    assert!(!socket.segmentation(V4));
    let bytes = [0; 100];
    let result = socket.send(&transmit(to(V4, &socket), 10, &[Piece::new(&bytes)]));
    assert!(matches!(result, Err(SendError::SegmentationUnsupported)));
}

#[test]
fn a_full_send_buffer_would_block() {
    in_namespace("a_full_send_buffer_would_block", || {
        // Packets wait in this queue, charged to the socket.
        let _tun = Tun::new("tun0", 1500, &["10.9.0.1/24"]);
        tc("qdisc add dev tun0 root tbf rate 8kbit burst 1600 limit 10000000");
        let buffers = BufferSizes { receive: 1 << 20, send: 20_000 };
        let sender = UdpOptions { buffers, ..UdpOptions::default() }.bind(0).unwrap();
        let bytes = pattern(1400);
        let pieces = [Piece::new(&bytes)];
        let sent = transmit("10.9.0.2:1".parse().unwrap(), 0, &pieces);
        let result = (0..1000).find_map(|_| sender.send(&sent).err());
        assert!(matches!(result, Some(SendError::WouldBlock)), "{result:?}");
    });
}

#[test]
fn without_ipv6_the_socket_is_of_ipv4() {
    std::thread::spawn(|| {
        fail_system_call(libc::SYS_socket, Some(libc::AF_INET6), libc::EAFNOSUPPORT);
        let (sender, receiver) = (UdpSocket::bind(0).unwrap(), UdpSocket::bind(0).unwrap());
        assert_eq!(sender.family(), Family::V4);
        let bytes = pattern(300);
        let pieces = [Piece::new(&bytes)];
        let sent = Transmit {
            traffic_class: 3,
            hop_limit: NonZeroU8::new(9),
            ..transmit(to(V4, &receiver), 100, &pieces)
        };
        sender.send(&sent).unwrap();
        let received = receive(&receiver, 3);
        assert_eq!(received.iter().flat_map(|r| r.packets.concat()).collect::<Vec<_>>(), bytes);
        let first = &received[0];
        assert_eq!((first.source, first.destination), (to(V4, &sender), V4));
        assert_eq!((first.traffic_class, first.hop_limit, first.flow_label), (3, 9, 0));
        assert!(matches!(sender.send(&transmit(to(V6, &receiver), 0, &[])), Err(SendError::Unreachable(_))));
    })
    .join()
    .unwrap();
}
