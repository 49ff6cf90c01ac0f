//! The server: one process that takes part in whatever clients measure.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::control::Control;
use super::driver;

/// Serves clients, one after another; only the first if `once`. Writes its address to standard output.
pub fn serve(address: SocketAddr, once: bool) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", listener.local_addr()?)?;
    output.flush()?;
    for stream in listener.incoming() {
        let stream = stream.context("cannot accept a client")?;
        let client = stream.peer_addr().map_or_else(|_| "a client".to_owned(), |address| address.to_string());
        let result =
            Control::new(stream).map_err(Into::into).and_then(|mut control| driver::attend(&mut control));
        match result {
            Err(error) if !once => eprintln!("softverbs: {client}: {error:#}"),
            // The client says what went wrong.
            _ => {}
        }
        if once {
            break;
        }
    }
    Ok(())
}

/// A server in a process of its own, which ends with this value.
pub struct LocalServer {
    process: Child,
    address: SocketAddr,
}

impl LocalServer {
    /// Starts it.
    pub fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut process = Command::new(program)
            .args(["perf", "--listen", "127.0.0.1:0", "--once"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server's process")?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.trim().parse() {
            Ok(address) => Ok(Self { process, address }),
            Err(_) => {
                let _ = process.kill();
                let _ = process.wait();
                bail!("the server's process did not start")
            }
        }
    }

    /// Connects to it.
    pub fn connect(&self) -> anyhow::Result<Control> {
        let stream = TcpStream::connect(self.address).context("cannot connect to the server's process")?;
        Ok(Control::new(stream)?)
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
