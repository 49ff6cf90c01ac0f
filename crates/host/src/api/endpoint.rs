//! What two sides tell each other before they are connected.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::str::FromStr;

use nic::verbs::Mtu;
use wire::{Gid, Psn, Qpn};

/// Longest line that is read from a peer.
const MAX_LINE: u64 = 4096;

/// How a queue pair is reached.
///
/// It is written as one line of text, and read from it:
///
/// ```
/// # use host::QpEndpoint;
/// let text = "gid=::ffff:192.0.2.1 qpn=0x1102 psn=0x5a17c3 mtu=4096 qkey=0x0";
/// let endpoint: QpEndpoint = text.parse()?;
/// assert_eq!(endpoint.qpn.value(), 0x1102);
/// assert_eq!(endpoint.to_string(), text);
/// # Ok::<(), host::ParseEndpointError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpEndpoint {
    /// Its port's address.
    pub gid: Gid,
    /// Its number.
    pub qpn: Qpn,
    /// The sequence number of the first packet that it will send.
    pub psn: Psn,
    /// The largest path MTU that it takes.
    pub mtu: Mtu,
    /// Its key for datagrams.
    pub qkey: u32,
}

/// Why a line of a peer was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseEndpointError(String);

impl fmt::Display for ParseEndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseEndpointError {}

impl fmt::Display for QpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gid, qpn, psn, mtu, qkey } = self;
        let (qpn, psn, mtu) = (qpn.value(), psn.value(), mtu.bytes());
        write!(f, "gid={gid} qpn={qpn:#x} psn={psn:#x} mtu={mtu} qkey={qkey:#x}")
    }
}

impl FromStr for QpEndpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let fields = Fields::parse(text)?;
        let address: std::net::Ipv6Addr = fields.value("gid")?;
        Ok(Self {
            gid: Gid::from(address),
            qpn: Qpn::new(fields.number("qpn")?),
            psn: Psn::new(fields.number("psn")?),
            mtu: Mtu::fitting(fields.number("mtu")?),
            qkey: fields.number("qkey")?,
        })
    }
}

/// The words of a line, each a name and a value.
pub(super) struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, ParseEndpointError> {
        let field = |word: &'a str| {
            word.split_once('=')
                .ok_or_else(|| ParseEndpointError(format!("{word:?}: expected a name, '=' and a value")))
        };
        text.split_whitespace().map(field).collect::<Result<_, _>>().map(Self)
    }

    fn text(&self, name: &str) -> Result<&'a str, ParseEndpointError> {
        let found = self.0.iter().find(|(found, _)| *found == name);
        found.map(|(_, value)| *value).ok_or_else(|| ParseEndpointError(format!("{name} is missing")))
    }

    fn value<T: FromStr>(&self, name: &str) -> Result<T, ParseEndpointError> {
        let text = self.text(name)?;
        text.parse().map_err(|_| ParseEndpointError(format!("{text:?} is no {name}")))
    }

    /// A number, in hexadecimal if it begins with `0x`.
    pub(super) fn number<T: TryFrom<u64>>(&self, name: &str) -> Result<T, ParseEndpointError> {
        let text = self.text(name)?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| ParseEndpointError(format!("{text:?} is no {name}")))
    }
}

/// Sends a value to the other side of a stream, as a line of text, and receives the other side's.
///
/// Both sides call it alike. Any stream will do; this is TCP on one machine:
///
/// ```
/// use std::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let other = std::thread::spawn(move || host::exchange(TcpStream::connect(address)?, &1));
/// let received: i32 = host::exchange(listener.accept()?.0, &2)?;
/// assert_eq!((received, other.join().unwrap()?), (1, 2));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn exchange<T>(stream: impl Read + Write, value: &T) -> io::Result<T>
where
    T: fmt::Display + FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let mut stream = stream;
    stream.write_all(format!("{value}\n").as_bytes())?;
    stream.flush()?;
    let mut line = String::new();
    // One byte at a time, so that what follows stays in the stream.
    BufReader::with_capacity(1, stream).take(MAX_LINE).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => line.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lines_are_refused_with_a_reason() {
        let wrong = |text: &str| text.parse::<QpEndpoint>().unwrap_err().to_string();
        assert_eq!(wrong("nonsense"), "\"nonsense\": expected a name, '=' and a value");
        assert_eq!(wrong("gid=::1 qpn=1 psn=2 mtu=1024"), "qkey is missing");
        assert_eq!(wrong("gid=::g qpn=1 psn=2 mtu=1024 qkey=0"), "\"::g\" is no gid");
        assert_eq!(wrong("gid=::1 qpn=0xx psn=2 mtu=1024 qkey=0"), "\"0xx\" is no qpn");
        assert_eq!(wrong("gid=::1 qpn=-1 psn=2 mtu=1024 qkey=0"), "\"-1\" is no qpn");
        assert_eq!(wrong("gid=::1 qpn=1 psn=2 mtu=1024 qkey=0x100000000"), "\"0x100000000\" is no qkey");
    }

    #[test]
    fn what_follows_a_line_stays_in_the_stream() {
        struct Pipe(io::Cursor<Vec<u8>>);
        impl Read for Pipe {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.read(buffer)
            }
        }
        impl Write for Pipe {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                Ok(buffer.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut pipe = Pipe(io::Cursor::new(b"7\n8\n9".to_vec()));
        assert_eq!(exchange(&mut pipe, &1).unwrap(), 7);
        assert_eq!(exchange(&mut pipe, &1).unwrap(), 8);
        assert_eq!(exchange(&mut pipe, &1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
