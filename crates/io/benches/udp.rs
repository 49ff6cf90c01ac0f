//! How fast datagrams are between two threads over loopback, beside plain sockets of the standard library.
//!
//! `cargo bench -p softverbs-io`; each figure is the median of several runs, with the lowest and the highest.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket as StdSocket};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use io::clock::now_ns;
use io::udp::{Piece, ReceiveBatch, SendError, Transmit, UdpSocket};

const RUNS: usize = 7;
const RUN_NS: u64 = 500_000_000;
const PACKET: usize = 4096;
/// Headers before and checksum after the payload, each a piece of its own, as a protocol would have it.
const HEAD: usize = 12;
const TAIL: usize = 4;
/// Bytes that may be under way: less than the receive buffer, so that nothing is dropped.
const WINDOW: u64 = 1 << 20;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome<()> {
    report("UDP 4 KiB packets in runs of 15 (Gb/s)", || udp_throughput(15))?;
    report("UDP 4 KiB packets in runs of 15, payload copied out (Gb/s)", || udp_throughput_to(15, true))?;
    report("UDP 4 KiB packets one by one, batched (Gb/s)", || udp_throughput(1))?;
    report("TCP stream, 128 KiB writes (Gb/s)", tcp_throughput)?;
    report("UDP 64 B polling ping-pong, half round trip (us)", ping_pong)?;
    report("the same with std sockets (us)", ping_pong_std)?;
    Ok(())
}

fn report(what: &str, measure: impl Fn() -> Outcome<f64>) -> Outcome<()> {
    let mut figures = (0..RUNS).map(|_| measure()).collect::<Outcome<Vec<_>>>()?;
    figures.sort_by(f64::total_cmp);
    println!("{what:<62} {:7.2}  ({:.2} to {:.2})", figures[RUNS / 2], figures[0], figures[RUNS - 1]);
    Ok(())
}

fn local(socket: &UdpSocket) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, socket.port()).into()
}

fn udp_throughput(run: usize) -> Outcome<f64> {
    udp_throughput_to(run, false)
}

/// Payload rate of runs of `run` packets; with `copy`, the receiver also moves the payload to where it belongs.
fn udp_throughput_to(run: usize, copy: bool) -> Outcome<f64> {
    let (sender, receiver) = (UdpSocket::bind(0)?, UdpSocket::bind(0)?);
    let destination = local(&receiver);
    let (received, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = now_ns();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receive_all(&receiver, &received, &stop, copy));
        let sent = send_for(&sender, destination, run, &received, start + RUN_NS);
        stop.store(true, Ordering::Relaxed);
        receiving.join().map_err(|_| "the receiver panicked")??;
        sent
    })?;
    Ok(received.load(Ordering::Relaxed) as f64 * 8.0 / (now_ns() - start) as f64)
}

fn send_for(
    socket: &UdpSocket,
    destination: SocketAddr,
    run: usize,
    received: &AtomicU64,
    end: u64,
) -> Outcome<()> {
    let payload = vec![7; PACKET * run];
    let (head, tail) = ([1; HEAD], [2; TAIL]);
    let packet = |payload| [Piece::new(&head), Piece::new(payload), Piece::new(&tail)];
    let pieces: Vec<_> = payload.chunks(PACKET).flat_map(packet).collect();
    let segment_size = NonZeroU16::new((HEAD + PACKET + TAIL) as u16).filter(|_| run > 1);
    let transmit = Transmit {
        destination,
        source: None,
        traffic_class: 0,
        hop_limit: None,
        segment_size,
        pieces: &pieces,
    };
    // One system call carries about as much either way.
    let batch = vec![transmit; 15usize.div_ceil(run)];
    let mut sent = 0;
    while now_ns() < end {
        if sent - received.load(Ordering::Relaxed) > WINDOW {
            thread::yield_now();
            continue;
        }
        match socket.send_batch(&batch) {
            Ok(count) => sent += (count * payload.len()) as u64,
            Err(SendError::WouldBlock | SendError::NoBuffers) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn receive_all(socket: &UdpSocket, received: &AtomicU64, stop: &AtomicBool, copy: bool) -> Outcome<()> {
    let mut batch = ReceiveBatch::new(8);
    let mut region = vec![0; 16 << 20];
    let mut at = 0;
    loop {
        if socket.receive(&mut batch)? == 0 {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::yield_now();
        }
        for segment in batch.datagrams().flat_map(|datagram| datagram.segments()) {
            let payload = &segment[HEAD..segment.len() - TAIL];
            if copy {
                region[at..at + payload.len()].copy_from_slice(payload);
                at = (at + payload.len()) % region.len();
            }
            received.fetch_add(payload.len() as u64, Ordering::Relaxed);
        }
    }
}

fn tcp_throughput() -> Outcome<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let start = now_ns();
    let receiving = thread::spawn(move || {
        let mut buffer = vec![0; 128 << 10];
        let mut received = 0;
        while let Ok(length) = receiver.read(&mut buffer) {
            if length == 0 {
                break;
            }
            received += length as u64;
        }
        received
    });
    let bytes = vec![7; 128 << 10];
    while now_ns() < start + RUN_NS {
        sender.write_all(&bytes)?;
    }
    drop(sender);
    let received = receiving.join().map_err(|_| "the receiver panicked")?;
    Ok(received as f64 * 8.0 / (now_ns() - start) as f64)
}

/// Sends 64 B to `destination` and waits for as much to come back, polling.
trait Exchange {
    fn send(&mut self) -> Outcome<()>;
    fn poll(&mut self) -> Outcome<bool>;
}

struct Ours<'a> {
    socket: &'a UdpSocket,
    destination: SocketAddr,
    batch: ReceiveBatch,
}

impl Exchange for Ours<'_> {
    fn send(&mut self) -> Outcome<()> {
        let bytes = [5; 64];
        let pieces = [Piece::new(&bytes[..HEAD]), Piece::new(&bytes[HEAD..])];
        let destination = self.destination;
        self.socket.send(&Transmit {
            destination,
            source: None,
            traffic_class: 0,
            hop_limit: None,
            segment_size: None,
            pieces: &pieces,
        })?;
        Ok(())
    }

    fn poll(&mut self) -> Outcome<bool> {
        self.socket.receive(&mut self.batch)?;
        Ok(self.batch.datagrams().any(|datagram| datagram.payload.len() == 64))
    }
}

struct Standard {
    socket: StdSocket,
    destination: SocketAddr,
}

impl Exchange for Standard {
    fn send(&mut self) -> Outcome<()> {
        self.socket.send_to(&[5; 64], self.destination)?;
        Ok(())
    }

    fn poll(&mut self) -> Outcome<bool> {
        match self.socket.recv_from(&mut [0; 2048]) {
            Ok((length, _)) => Ok(length == 64),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Half the round trip between two threads that never sleep, in microseconds.
fn exchange(mut one: impl Exchange, mut other: impl Exchange + Send) -> Outcome<f64> {
    const ROUNDS: u64 = 5_000;
    thread::scope(|scope| {
        let echo = scope.spawn(move || -> Outcome<()> {
            for _ in 0..ROUNDS {
                while !other.poll()? {}
                other.send()?;
            }
            Ok(())
        });
        let start = now_ns();
        for _ in 0..ROUNDS {
            one.send()?;
            while !one.poll()? {}
        }
        let passed = now_ns() - start;
        echo.join().map_err(|_| "the echo panicked")??;
        Ok(passed as f64 / ROUNDS as f64 / 2000.0)
    })
}

fn ping_pong() -> Outcome<f64> {
    let (one, other) = (UdpSocket::bind(0)?, UdpSocket::bind(0)?);
    let end = |socket, peer| Ours { socket, destination: local(peer), batch: ReceiveBatch::new(8) };
    exchange(end(&one, &other), end(&other, &one))
}

fn ping_pong_std() -> Outcome<f64> {
    let (one, other) = (StdSocket::bind("127.0.0.1:0")?, StdSocket::bind("127.0.0.1:0")?);
    let (one_address, other_address) = (one.local_addr()?, other.local_addr()?);
    one.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    let end = |socket, destination| Standard { socket, destination };
    exchange(end(one, other_address), end(other, one_address))
}
