//! The kernel's TCP and UDP, for comparison: the same messages between the same processes, polled like verbs.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use super::bench::{Bench, Patience, Role, SOCKET_POLLS, pattern};
use super::control::Control;
use super::spec::{Mode, Spec};
use super::stats::Samples;

/// How much of a stream is read at once.
const STREAM_BUFFER: usize = 1 << 18;

/// TCP: messages of a fixed size on one connection.
pub struct TcpBench {
    stream: TcpStream,
    role: Role,
    mode: Mode,
    message: Vec<u8>,
    expected: Vec<u8>,
    received: Vec<u8>,
}

impl TcpBench {
    /// Connects the two sides.
    pub fn open(spec: &Spec, role: Role, control: &mut Control) -> anyhow::Result<Self> {
        let (local, peer) = control.addresses()?;
        let stream = match role {
            Role::Server => {
                let listener = TcpListener::bind((local.ip(), 0))?;
                control.answer(listener.local_addr()?.port())?;
                listener.accept()?.0
            }
            Role::Client => TcpStream::connect((peer.ip(), control.expect::<u16>()?))?,
        };
        stream.set_nodelay(true)?;
        // Messages that are timed are polled for; a stream sleeps, as it would in a program.
        stream.set_nonblocking(spec.mode == Mode::Latency)?;
        Ok(Self {
            stream,
            role,
            mode: spec.mode,
            message: pattern(role, spec.size),
            expected: pattern(role.other(), spec.size),
            received: vec![0; spec.size],
        })
    }

    fn send(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::new(SOCKET_POLLS);
        let mut rest = &self.message[..];
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => patience.check()?,
                Err(error) => return Err(error).context("cannot send on TCP"),
            }
        }
        Ok(())
    }

    /// Receives so many bytes, message boundaries or not, as a program that wants a stream would.
    fn drain(&mut self, bytes: u64) -> anyhow::Result<()> {
        let mut buffer = vec![0; STREAM_BUFFER];
        let mut left = bytes;
        while left > 0 {
            let wanted = left.min(STREAM_BUFFER as u64) as usize;
            match self.stream.read(&mut buffer[..wanted])? {
                0 => bail!("the other side closed its TCP connection"),
                read => left -= read as u64,
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::new(SOCKET_POLLS);
        let mut filled = 0;
        while filled < self.received.len() {
            match self.stream.read(&mut self.received[filled..]) {
                Ok(0) => bail!("the other side closed its TCP connection"),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => patience.check()?,
                Err(error) => return Err(error).context("cannot receive on TCP"),
            }
        }
        Ok(())
    }
}

impl Bench for TcpBench {
    fn prepare(&mut self, _: u64) -> anyhow::Result<()> {
        Ok(())
    }

    fn drive(&mut self, iterations: u64, samples: &mut Samples) -> anyhow::Result<()> {
        for _ in 0..iterations {
            let start = Instant::now();
            self.send()?;
            if self.mode == Mode::Latency {
                self.receive()?;
                samples.push(start.elapsed());
            }
        }
        if self.mode == Mode::Bandwidth {
            // The last message counts when it has arrived.
            self.stream.read_exact(&mut [0])?;
        }
        Ok(())
    }

    fn attend(&mut self, iterations: u64, _: &mut Control) -> anyhow::Result<u64> {
        match self.mode {
            Mode::Latency => {
                for _ in 0..iterations {
                    self.receive()?;
                    self.send()?;
                }
            }
            Mode::Bandwidth => {
                self.drain((iterations - 1) * self.received.len() as u64)?;
                self.receive()?;
                self.stream.write_all(&[1])?;
            }
        }
        Ok(iterations)
    }

    fn verify(&mut self) -> anyhow::Result<()> {
        let receives = self.mode == Mode::Latency || self.role == Role::Server;
        ensure!(!receives || self.received == self.expected, "TCP delivered other data than was sent");
        Ok(())
    }
}

/// UDP: one datagram at a time, there and back.
pub struct UdpBench {
    socket: UdpSocket,
    message: Vec<u8>,
    expected: Vec<u8>,
    received: Vec<u8>,
}

impl UdpBench {
    /// Connects the two sides.
    pub fn open(spec: &Spec, role: Role, control: &mut Control) -> anyhow::Result<Self> {
        let (local, peer) = control.addresses()?;
        let socket = UdpSocket::bind((local.ip(), 0))?;
        let port: u16 = control.exchange(&socket.local_addr()?.port())?;
        socket.connect(SocketAddr::new(peer.ip(), port))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            message: pattern(role, spec.size),
            expected: pattern(role.other(), spec.size),
            received: vec![0; spec.size],
        })
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::new(SOCKET_POLLS);
        loop {
            match self.socket.recv(&mut self.received) {
                Ok(length) if length == self.received.len() => return Ok(()),
                Ok(length) => bail!("UDP delivered {length} bytes of {}", self.received.len()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => patience.check()?,
                Err(error) => return Err(error).context("cannot receive on UDP"),
            }
        }
    }
}

impl Bench for UdpBench {
    fn prepare(&mut self, _: u64) -> anyhow::Result<()> {
        Ok(())
    }

    fn drive(&mut self, iterations: u64, samples: &mut Samples) -> anyhow::Result<()> {
        for _ in 0..iterations {
            let start = Instant::now();
            self.socket.send(&self.message)?;
            self.receive()?;
            samples.push(start.elapsed());
        }
        Ok(())
    }

    fn attend(&mut self, iterations: u64, _: &mut Control) -> anyhow::Result<u64> {
        for _ in 0..iterations {
            self.receive()?;
            self.socket.send(&self.message)?;
        }
        Ok(iterations)
    }

    fn verify(&mut self) -> anyhow::Result<()> {
        ensure!(self.received == self.expected, "UDP delivered other data than was sent");
        Ok(())
    }
}
