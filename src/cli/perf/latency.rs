//! One message at a time.

use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use host::{CompletionOpcode, Work};

use super::bench::{Patience, QUEUE_POLLS};
use super::control::Control;
use super::rdma::RdmaBench;
use super::spec::{Operation, Spec};
use super::stats::Samples;

/// Every so many-th send completes with success: often enough that the queue never fills.
const SIGNAL_EVERY: u64 = 8;

impl RdmaBench {
    /// Sends a message and waits for one, again and again.
    pub(super) fn ping_messages(&mut self, iterations: u64, samples: &mut Samples) -> anyhow::Result<()> {
        for index in 0..iterations {
            let start = Instant::now();
            self.send_message(index)?;
            self.wait_for_message()?;
            samples.push(start.elapsed());
            self.post_receives(iterations - index - 1)?;
        }
        Ok(())
    }

    /// Waits for a message and answers it, again and again.
    pub(super) fn pong_messages(&mut self, iterations: u64) -> anyhow::Result<u64> {
        for index in 0..iterations {
            self.wait_for_message()?;
            self.send_message(index)?;
            self.post_receives(iterations - index - 1)?;
        }
        Ok(iterations)
    }

    fn send_message(&self, index: u64) -> anyhow::Result<()> {
        let outbox = [self.outbox()?];
        let work = Work::send(&outbox);
        let work = if index.is_multiple_of(SIGNAL_EVERY) { work } else { work.unsignaled() };
        let work = match &self.handle {
            Some(handle) => work.to(handle, &self.peer),
            None => work,
        };
        self.qp.post(&work).context("cannot send")
    }

    /// Polls until a message has arrived; its slot is the next that is free.
    fn wait_for_message(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::new(QUEUE_POLLS);
        loop {
            match self.queue.poll()? {
                Some(done) if !done.is_success() => bail!("a request failed: {:?}", done.status),
                Some(done) if done.opcode == CompletionOpcode::Recv => {
                    self.received(done.wr_id);
                    return Ok(());
                }
                Some(_) => {}
                None => patience.check()?,
            }
        }
    }

    /// Writes a message into the peer's memory and waits for one in ours, again and again.
    pub(super) fn ping_writes(&mut self, iterations: u64, samples: &mut Samples) -> anyhow::Result<()> {
        for index in 0..iterations {
            let start = Instant::now();
            self.write_message(index)?;
            self.wait_for_write(index)?;
            samples.push(start.elapsed());
        }
        self.settle()
    }

    /// Waits for a message in our memory and answers it, again and again.
    pub(super) fn pong_writes(&mut self, iterations: u64) -> anyhow::Result<u64> {
        for index in 0..iterations {
            self.wait_for_write(index)?;
            self.write_message(index)?;
        }
        self.settle()?;
        Ok(iterations)
    }

    /// The last byte of a message tells which one it is.
    fn mark(&self, index: u64) -> u8 {
        (self.total + index + 1) as u8
    }

    fn write_message(&self, index: u64) -> anyhow::Result<()> {
        self.memory.write(self.layout.size - 1, &[self.mark(index)])?;
        let outbox = [self.outbox()?];
        let work = Work::write(&outbox, self.remote.at(self.layout.message(0).start as u64));
        let work = if index.is_multiple_of(SIGNAL_EVERY) { work } else { work.unsignaled() };
        self.qp.post(&work).context("cannot write")
    }

    fn wait_for_write(&self, index: u64) -> anyhow::Result<()> {
        let last = self.layout.message(0).end - 1;
        let expected = [self.mark(index)];
        let mut patience = Patience::new(QUEUE_POLLS);
        let mut found = [0];
        loop {
            self.memory.read(last, &mut found)?;
            if found == expected {
                return Ok(());
            }
            // Polling receives what is to be waited for, and takes the completions of our writes.
            match self.queue.poll()? {
                Some(done) if !done.is_success() => bail!("a write failed: {:?}", done.status),
                Some(_) => {}
                None => patience.check()?,
            }
        }
    }

    /// Waits until everything that was posted is done, so that the queue is empty for the next round.
    fn settle(&self) -> anyhow::Result<()> {
        let outbox = [self.outbox()?];
        let marker = u64::MAX;
        // Nothing is written, to nowhere: it completes after all that was posted before.
        let work = Work::write(&outbox[..0], self.remote.at(0)).id(marker);
        self.qp.post(&work).context("cannot write")?;
        let mut patience = Patience::new(QUEUE_POLLS);
        loop {
            match self.queue.poll()? {
                Some(done) if !done.is_success() => bail!("a write failed: {:?}", done.status),
                Some(done) if done.wr_id == marker => return Ok(()),
                Some(_) => {}
                None => patience.check()?,
            }
        }
    }

    /// Reads from the peer's memory, or works on its word, one operation after another.
    pub(super) fn ask(&mut self, iterations: u64, samples: &mut Samples) -> anyhow::Result<()> {
        let Spec { operation, .. } = self.spec;
        for index in 0..iterations {
            let start = Instant::now();
            let count = self.total + index;
            let into = [self.memory.slice(self.layout.message(0))?];
            let work = match operation {
                Operation::Cas => Work::compare_swap(&into, self.remote.at(0), count, count + 1),
                Operation::Fadd => Work::fetch_add(&into, self.remote.at(0), 1),
                _ => Work::read(&into, self.remote.at(0)),
            };
            self.qp.post(&work).with_context(|| format!("cannot post a {operation}"))?;
            let mut patience = Patience::new(QUEUE_POLLS);
            let done = loop {
                match self.queue.poll()? {
                    Some(done) => break done,
                    None => patience.check()?,
                }
            };
            samples.push(start.elapsed());
            ensure!(done.is_success(), "a {operation} failed: {:?}", done.status);
        }
        Ok(())
    }

    /// Lets the client work on our memory until it calls.
    pub(super) fn be_used(&mut self, control: &mut Control) -> anyhow::Result<()> {
        if self.spec.passive {
            return control.wait();
        }
        while !control.is_called() {
            for _ in 0..QUEUE_POLLS {
                self.pd.context().progress();
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}
