//! The least that two processes can exchange over UDP: a small datagram there and back, both sides polling.

use std::{
    io::ErrorKind,
    net::UdpSocket,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// The first argument with which this program is one side of the ping-pong.
pub const ROLE: &str = "udp-ping-pong";

const SERVER: &str = "127.0.0.1:9999";
const SIZE: usize = 64;
const ROUNDS: usize = 20_000;

/// Longer than a round trip on any machine that is worth a measurement.
const PATIENCE: Duration = Duration::from_secs(10);

/// Plays the side that the arguments name; the client prints the median of half a round trip, in microseconds.
pub fn run(arguments: &[String]) -> Result<()> {
    match arguments.first().map(String::as_str) {
        Some("server") => serve(),
        Some("client") => ask(),
        other => bail!("{ROLE} server or client, not {other:?}"),
    }
}

fn serve() -> Result<()> {
    let socket = UdpSocket::bind(SERVER)?;
    socket.set_nonblocking(true)?;
    println!("ready");
    let mut datagram = [0; SIZE];
    for _ in 0..ROUNDS {
        let (length, from) = poll(|| socket.recv_from(&mut datagram))?;
        socket.send_to(&datagram[..length], from)?;
    }
    Ok(())
}

fn ask() -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(SERVER)?;
    socket.set_nonblocking(true)?;
    let mut datagram = [0; SIZE];
    let mut halves = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        socket.send(&datagram)?;
        poll(|| socket.recv(&mut datagram))?;
        halves.push(start.elapsed().as_secs_f64() * 1e6 / 2.0);
    }
    println!("{}", crate::median(halves));
    Ok(())
}

/// Tries until there is something.
fn poll<T>(mut attempt: impl FnMut() -> std::io::Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => return result.context("UDP"),
        }
        if start.elapsed() > PATIENCE {
            bail!("nothing came for {PATIENCE:?}");
        }
    }
}
