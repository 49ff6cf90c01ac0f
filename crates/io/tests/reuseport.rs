//! Groups of sockets on one port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use io::reuseport::{RenewError, ReuseportGroup, Steering};
use io::udp::{BindError, Piece, ReceiveBatch, Transmit, UdpSocket};

const WORD_AT_4: Steering = Steering { offset: 4, mask: 0xFF };

fn group(count: u32) -> ReuseportGroup {
    let steering = Steering { mask: count - 1, ..WORD_AT_4 };
    ReuseportGroup::bind(0, count as usize, steering).unwrap()
}

/// A payload for `index`, with all the bits outside of the mask set at random.
fn payload(index: u32, mask: u32) -> [u8; 12] {
    let word = (index.wrapping_mul(0x9E37_79B9) & !mask) | index;
    let mut bytes = [0xEE; 12];
    bytes[4..8].copy_from_slice(&word.to_be_bytes());
    bytes
}

/// Renews, waiting for a moment in which no child of a test next door is between fork and exec with all our sockets.
fn renew(group: &mut ReuseportGroup, index: usize) {
    let patience = Instant::now() + Duration::from_secs(5);
    while let Err(error) = group.renew(index) {
        let held = matches!(error, RenewError::StillHeld | RenewError::OtherStillHeld(_));
        assert!(held && Instant::now() < patience, "{error}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The socket of `index` as a process that was given it has it.
fn given(group: &ReuseportGroup, index: usize) -> UdpSocket {
    UdpSocket::from_fd(group.socket(index).unwrap().as_fd().try_clone_to_owned().unwrap()).unwrap()
}

/// How many packets are at `socket`, without waiting for any.
fn waiting(socket: &UdpSocket) -> usize {
    let mut batch = ReceiveBatch::new(4);
    let mut count = 0;
    while socket.receive(&mut batch).unwrap() > 0 {
        count += batch.datagrams().map(|d| d.segments().count()).sum::<usize>();
    }
    count
}

/// Waits until `count` packets have come to `socket`: on a busy machine loopback takes its time.
fn expect(socket: &UdpSocket, count: usize, what: &str) {
    let patience = Instant::now() + Duration::from_secs(5);
    let mut received = waiting(socket);
    while received < count {
        assert!(Instant::now() < patience, "{received} of {count} packets came to {what}");
        support::wait_readable(socket);
        received += waiting(socket);
    }
    assert_eq!(received, count, "{what}");
}

/// Sends to every index, from an IPv6 socket to both families and from an IPv4 socket, and sees where it arrives.
fn check_steering(group: &ReuseportGroup) {
    let mask = group.len() as u32;
    let dual = UdpSocket::bind(0).unwrap();
    let v4 = StdSocket::bind("127.0.0.1:0").unwrap();
    let to = |ip: IpAddr| SocketAddr::new(ip, group.port());
    for index in 0..group.len() {
        let bytes = payload(index as u32, mask);
        let receiver = group.socket(index).unwrap();
        for ip in [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)] {
            dual.send(&Transmit {
                destination: to(ip),
                source: None,
                traffic_class: 0,
                hop_limit: None,
                segment_size: None,
                pieces: &[Piece::new(&bytes)],
            })
            .unwrap();
            expect(receiver, 1, &format!("index {index} by {ip}"));
        }
        v4.send_to(&bytes, to(Ipv4Addr::LOCALHOST.into())).unwrap();
        expect(receiver, 1, &format!("index {index} from an IPv4 socket"));
    }
    for index in 0..group.len() {
        assert_eq!(waiting(group.socket(index).unwrap()), 0, "index {index} received what is not its own");
    }
}

#[test]
fn every_datagram_goes_to_its_socket_without_privileges() {
    std::thread::spawn(|| {
        support::become_nobody();
        let start = Instant::now();
        let group = group(256);
        println!("256 sockets made in {:?}", start.elapsed());
        assert_eq!(group.len(), 255);
        check_steering(&group);
    })
    .join()
    .unwrap();
}

#[test]
fn a_whole_run_goes_to_the_socket_of_its_first_packet() {
    let group = group(8);
    let (sender, receiver) = (UdpSocket::bind(0).unwrap(), given(&group, 5));
    let bytes: Vec<_> = [payload(5, 7); 20].concat();
    sender
        .send(&Transmit {
            destination: (Ipv6Addr::LOCALHOST, group.port()).into(),
            source: None,
            traffic_class: 0,
            hop_limit: None,
            segment_size: std::num::NonZeroU16::new(12),
            pieces: &[Piece::new(&bytes)],
        })
        .unwrap();
    expect(&receiver, 20, "the socket of the first packet");
}

#[test]
fn what_is_too_short_goes_to_the_first() {
    let group = group(4);
    let receiver = given(&group, 0);
    let sender = StdSocket::bind("[::1]:0").unwrap();
    for length in 0..8 {
        sender.send_to(&[0xFF; 8][..length], (Ipv6Addr::LOCALHOST, group.port())).unwrap();
    }
    expect(&receiver, 8, "index 0");
}

#[test]
fn packets_for_nobody_do_not_pile_up() {
    let group = group(4);
    let unused = group.socket(1).unwrap().buffer_sizes().unwrap();
    let sender = StdSocket::bind("[::1]:0").unwrap();
    for _ in 0..1000 {
        sender.send_to(&payload(1, 3), (Ipv6Addr::LOCALHOST, group.port())).unwrap();
    }
    support::wait_readable(group.socket(1).unwrap());
    assert!((1..10).contains(&waiting(group.socket(1).unwrap())));
    assert!(given(&group, 1).buffer_sizes().unwrap().receive > 10 * unused.receive);
}

#[test]
fn two_groups_do_not_mix() {
    let first = group(4);
    let second = ReuseportGroup::bind(first.port(), 4, WORD_AT_4);
    assert!(matches!(second, Err(BindError::PortInUse { port }) if port == first.port()), "{second:?}");
    check_steering(&first);
}

#[test]
fn a_renewed_socket_starts_empty_and_the_order_stays() {
    let mut group = group(8);
    let sender = StdSocket::bind("127.0.0.1:0").unwrap();
    for index in [3, 0, 6, 3] {
        sender.send_to(&payload(index, 7), ("127.0.0.1", group.port())).unwrap();
        support::wait_readable(group.socket(index as usize).unwrap());
        renew(&mut group, index as usize);
        check_steering(&group);
    }
    assert!(matches!(group.renew(7), Err(RenewError::NoSuchIndex(7))));
}

#[test]
fn a_socket_that_someone_holds_is_not_renewed_before_they_let_go() {
    let mut group = group(8);
    let holder = group.socket(2).unwrap().as_fd().try_clone_to_owned().unwrap();
    assert!(matches!(group.renew(2), Err(RenewError::StillHeld)));
    assert!(group.socket(2).is_none());
    assert!(matches!(group.renew(4), Err(RenewError::OtherStillHeld(2))));
    assert!(group.socket(4).is_some());
    drop(holder);
    renew(&mut group, 4);
    check_steering(&group);
}

#[test]
fn a_program_that_is_killed_leaves_its_index_to_be_renewed() {
    let mut group = group(8);
    let held = group.socket(1).unwrap().as_fd().try_clone_to_owned().unwrap();
    let mut holder = Command::new("sleep").arg("1000").stdin(Stdio::from(held)).spawn().unwrap();
    assert!(matches!(group.renew(1), Err(RenewError::StillHeld)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    renew(&mut group, 1);
    check_steering(&group);
}
