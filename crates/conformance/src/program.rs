//! One outside program: how it is started, how long it may take, what it printed.

use std::{
    fmt,
    io::Read,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

/// How often a wait looks again. Short beside any program run here, long beside what a look costs.
const POLL: Duration = Duration::from_millis(5);

/// What a program may take when the test does not say.
const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

/// A program that has not been started yet.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<String>,
    environment: Vec<(String, String)>,
    limit: Duration,
}

impl Program {
    /// The program `name`, found in `PATH`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { words: vec![name.into()], environment: Vec::new(), limit: DEFAULT_LIMIT }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl ToString) -> Self {
        self.words.push(arg.to_string());
        self
    }

    /// Adds the words of `line`, separated by white space; no quoting.
    #[must_use]
    pub fn args(mut self, line: &str) -> Self {
        self.words.extend(line.split_whitespace().map(str::to_owned));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().display().to_string()));
        self
    }

    /// Ends the program with a failure when it takes longer than this.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it through another program, which takes this one's command line as the end of its own.
    ///
    /// Variables set with [`env`](Self::env) travel with the command line, so that a wrapper that changes host or user
    /// does not lose them.
    #[must_use]
    pub fn through<'a>(mut self, wrapper: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words: Vec<String> = wrapper.into_iter().map(str::to_owned).collect();
        if !self.environment.is_empty() {
            words.push("env".to_owned());
            words.extend(self.environment.drain(..).map(|(name, value)| format!("{name}={value}")));
        }
        words.append(&mut self.words);
        self.words = words;
        self
    }

    /// Starts it, with no standard input.
    ///
    /// # Errors
    /// When the program is not there.
    pub fn start(self) -> Result<Running> {
        // A test that is killed must leave nothing behind, and `setpriv` passes the parent's death on without `unsafe` here.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(&self.words).envs(self.environment.iter().cloned());
        let mut child = std::os::unix::process::CommandExt::process_group(&mut command, 0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.words.join(" ")))?;
        let stdout = Collector::new(child.stdout.take().expect("stdout was piped"));
        let stderr = Collector::new(child.stderr.take().expect("stderr was piped"));
        Ok(Running { child, program: self, stdout, stderr, started: Instant::now() })
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it cannot be started or exceeds its limit; not when it fails.
    pub fn run(self) -> Result<Finished> {
        self.start()?.finish()
    }

    /// Runs it and returns what it wrote to its standard output.
    ///
    /// # Errors
    /// When it cannot be started, exceeds its limit or fails.
    pub fn output(self) -> Result<String> {
        Ok(self.run()?.succeeded()?.stdout)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

/// A program that was started. Dropping it ends it, with all that it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    program: Program,
    stdout: Collector,
    stderr: Collector,
    started: Instant,
}

impl Running {
    /// The process id, which is also its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to its standard output so far.
    pub fn stdout_so_far(&self) -> String {
        self.stdout.text()
    }

    /// What it wrote to its standard error so far.
    pub fn stderr_so_far(&self) -> String {
        self.stderr.text()
    }

    /// Whether it is still running.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits until `condition` holds for this running program.
    ///
    /// # Errors
    /// When the program ends first, or its limit passes; with all that it printed.
    pub fn wait_until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        while !condition(self)? {
            if !self.is_running()? {
                bail!("ended before {what}:\n{}", self.transcript());
            }
            if self.started.elapsed() > self.program.limit {
                bail!("no {what} within {:?}:\n{}", self.program.limit, self.transcript());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When its limit passes first; then it is ended.
    pub fn finish(mut self) -> Result<Finished> {
        let deadline = self.started + self.program.limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                self.end();
                bail!("took longer than {:?}, ended:\n{}", self.program.limit, self.transcript());
            }
            thread::sleep(POLL);
        };
        self.stdout.wait();
        self.stderr.wait();
        Ok(Finished {
            command: self.program.to_string(),
            status,
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
            took: self.started.elapsed(),
        })
    }

    /// Asks it to end, as a terminal's interrupt key does.
    ///
    /// # Errors
    /// When it is gone already.
    pub fn interrupt(&self) -> Result<()> {
        kill_process_group(self.group(), Signal::INT).context("interrupt")
    }

    /// Ends it at once, as the kernel's out-of-memory killer does.
    pub fn end(&mut self) {
        // It may have ended by itself; either way it is gone after the wait.
        let _ = kill_process_group(self.group(), Signal::KILL);
        let _ = self.child.wait();
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn transcript(&self) -> String {
        format!("$ {}\n{}{}", self.program, self.stdout.text(), self.stderr.text())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A program that ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// All that it wrote to standard output.
    pub stdout: String,
    /// All that it wrote to standard error.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
}

impl Finished {
    /// Itself, if it exited with 0.
    ///
    /// # Errors
    /// With all that it printed, otherwise.
    pub fn succeeded(self) -> Result<Self> {
        ensure!(self.status.success(), "{}:\n{self}", self.status);
        Ok(self)
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ {}", self.command)?;
        f.write_str(&self.stdout)?;
        f.write_str(&self.stderr)
    }
}

/// Reads a pipe to its end on a thread of its own, so that no program blocks on a full pipe.
#[derive(Debug)]
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collector {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 8192];
            while let Ok(length @ 1..) = pipe.read(&mut chunk) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..length]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits for the pipe's end, but not for ever: a grandchild may have inherited it and live on.
    fn wait(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(2);
        while let Some(reader) = self.reader.take_if(|reader| !reader.is_finished()) {
            self.reader = Some(reader);
            if Instant::now() > deadline {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_come_back() {
        let finished = Program::new("sh").arg("-c").arg("echo out; echo err >&2; exit 3").run().unwrap();
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(finished.status.code(), Some(3));
        assert!(finished.succeeded().unwrap_err().to_string().contains("err"));
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let program =
            Program::new("sh").arg("-c").arg("sleep 77 & echo $!; wait").limit(Duration::from_millis(200));
        let error = program.run().unwrap_err().to_string();
        let grandchild = error.lines().last().unwrap().trim();
        assert!(error.contains("took longer"), "{error}");
        thread::sleep(Duration::from_millis(50));
        let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "sleep lives on: {state}");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let finished = Program::new("no-such-program").run().unwrap();
        assert!(finished.succeeded().is_err());
    }

    #[test]
    fn a_wrapper_carries_the_environment() {
        let program =
            Program::new("printenv").arg("GREETING").env("GREETING", "hello").through(["nice", "-n", "1"]);
        assert_eq!(program.output().unwrap(), "hello\n");
    }
}
