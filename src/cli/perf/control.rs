//! The connection on which client and server agree: one JSON value a line, over TCP.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::spec::Spec;

/// How long the other side may take for anything that it is asked for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the connection is looked at by who is busy with something else.
const GLANCE: Duration = Duration::from_micros(200);

/// What the client asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// To get ready to measure this.
    Open(Spec),
    /// To take part in so many messages.
    Round(u64),
    /// To check what has arrived, and be done with it.
    Close,
}

/// What the server tells of a round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RoundReport {
    /// Processors it used.
    pub cpu: f64,
    /// How many messages arrived.
    pub delivered: u64,
}

/// The connection.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
    glanced: Instant,
}

impl Control {
    /// Over an open connection.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(stream), glanced: Instant::now() })
    }

    /// Our address and the peer's.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.reader.get_ref().local_addr()?, self.reader.get_ref().peer_addr()?))
    }

    /// Says something.
    pub fn send<T: Serialize>(&mut self, value: &T) -> anyhow::Result<()> {
        let line = serde_json::to_string(value)? + "\n";
        self.reader.get_ref().write_all(line.as_bytes()).context("the other side is gone")
    }

    /// Hears something; nothing if the other side has hung up.
    pub fn receive<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line)
                .map(Some)
                .context("the other side is not this version of softverbs perf"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => bail!("the other side does not answer"),
            Err(error) => Err(error).context("the connection to the other side broke"),
        }
    }

    /// Hears what must come.
    pub fn expect<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        match self.receive::<Result<T, String>>()? {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => bail!("the other side: {error}"),
            None => bail!("the other side is gone"),
        }
    }

    /// Says what the other side expects.
    pub fn answer<T: Serialize>(&mut self, value: T) -> anyhow::Result<()> {
        self.send(&Ok::<T, String>(value))
    }

    /// Says something and hears the same of the other side.
    pub fn exchange<T: Serialize + DeserializeOwned>(&mut self, value: &T) -> anyhow::Result<T> {
        self.answer(value)?;
        self.expect()
    }

    /// Whether the other side has something to say. Looks now and then only, so that it can be asked often.
    pub fn is_called(&mut self) -> bool {
        let now = Instant::now();
        if now - self.glanced < GLANCE {
            return false;
        }
        self.glanced = now;
        if !self.reader.buffer().is_empty() {
            return true;
        }
        let stream = self.reader.get_ref();
        let _ = stream.set_nonblocking(true);
        // An error is to be told by whoever reads next.
        let called = !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        let _ = stream.set_nonblocking(false);
        called
    }

    /// Sleeps until the other side has something to say.
    pub fn wait(&mut self) -> anyhow::Result<()> {
        self.reader.fill_buf().context("the connection to the other side broke")?;
        Ok(())
    }
}
