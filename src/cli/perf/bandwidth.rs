//! As many messages as the queue takes.

use std::time::Duration;

use anyhow::{Context as _, bail};
use host::{RegionSlice, Work};

use super::bench::{Patience, QUEUE_POLLS};
use super::control::Control;
use super::rdma::RdmaBench;
use super::spec::{Operation, Transport};

/// Most requests posted together.
const BATCH: usize = 16;

/// Polls that may find nothing before others may run. The other side is at work meanwhile, for as long as a
/// queueful takes.
const WINDOW_POLLS: u64 = 20 * QUEUE_POLLS;

/// How long nothing may come, after the client is done, before the rest counts as lost.
const QUIET: Duration = Duration::from_millis(20);

impl RdmaBench {
    /// Keeps the send queue full until all has been sent and completed.
    pub(super) fn stream(&mut self, iterations: u64) -> anyhow::Result<()> {
        let depth = self.spec.depth as u64;
        // Four completions for each queueful.
        let signal_every = (depth / 4).max(1);
        let outbox = [self.outbox()?];
        let slots: Vec<[RegionSlice<'_>; 1]> = (0..self.layout.slots)
            .map(|slot| Ok([self.memory.slice(self.layout.message(slot))?]))
            .collect::<anyhow::Result<_>>()?;
        let mut batch = Vec::with_capacity(BATCH);
        let (mut posted, mut completed) = (0, 0);
        let mut patience = Patience::new(WINDOW_POLLS);
        while completed < iterations {
            let room = (completed + depth).min(iterations) - posted;
            for _ in 0..room.min(BATCH as u64) {
                let slot = (posted % slots.len() as u64) as usize;
                let work = self.request(self.total + posted, slot, &outbox, &slots[slot]).id(posted + 1);
                posted += 1;
                let signaled = posted.is_multiple_of(signal_every) || posted == iterations;
                batch.push(if signaled { work } else { work.unsignaled() });
            }
            if !batch.is_empty() {
                self.qp.post_all(&batch).map_err(|(_, error)| error).context("cannot post")?;
                batch.clear();
            }
            // With room for more, one look is enough; with none, something has to complete.
            while let Some(done) = self.queue.poll()? {
                if !done.is_success() {
                    bail!("a {} failed: {:?}", self.spec.operation, done.status);
                }
                completed = done.wr_id;
                patience = Patience::new(WINDOW_POLLS);
            }
            if posted == (completed + depth).min(iterations) && completed < iterations {
                patience.check()?;
            }
        }
        Ok(())
    }

    fn request<'a>(
        &'a self,
        count: u64,
        slot: usize,
        outbox: &'a [RegionSlice<'a>; 1],
        inbox: &'a [RegionSlice<'a>; 1],
    ) -> Work<'a> {
        let to = self.remote.at(self.layout.message(slot).start as u64);
        match self.spec.operation {
            Operation::Send => match &self.handle {
                Some(handle) => Work::send(outbox).to(handle, &self.peer),
                None => Work::send(outbox),
            },
            Operation::Write if self.spec.transport == Transport::Uc => {
                Work::write_with_immediate(outbox, to, slot as u32)
            }
            Operation::Write => Work::write(outbox, to),
            Operation::Read => Work::read(inbox, self.remote.at(0)),
            Operation::Cas => Work::compare_swap(inbox, self.remote.at(0), count, count + 1),
            Operation::Fadd => Work::fetch_add(inbox, self.remote.at(0), 1),
        }
    }

    /// Receives until all has come, or the client is done and nothing comes any more.
    pub(super) fn drain(&mut self, iterations: u64, control: &mut Control) -> anyhow::Result<u64> {
        let (mut received, mut is_called) = (0, false);
        let mut patience = Patience::new(WINDOW_POLLS);
        while received < iterations {
            let found = self.take_messages(iterations - received)?;
            received += found;
            if found > 0 {
                patience = Patience::new(WINDOW_POLLS);
            } else if is_called && patience.waited() > QUIET {
                if !self.spec.transport.is_lossy() {
                    bail!("{received} of {iterations} messages arrived");
                }
                break;
            } else {
                is_called = is_called || control.is_called();
            }
        }
        Ok(received)
    }

    /// Takes what has arrived, and posts its receives again as far as they will be needed.
    fn take_messages(&mut self, expected: u64) -> anyhow::Result<u64> {
        let mut completions = std::mem::take(&mut self.completions);
        completions.clear();
        self.queue.poll_into(&mut completions, BATCH)?;
        for done in &completions {
            if !done.is_success() {
                bail!("a receive failed: {:?}", done.status);
            }
            self.received(done.wr_id);
        }
        self.post_receives(expected - completions.len() as u64)?;
        let found = completions.len() as u64;
        self.completions = completions;
        Ok(found)
    }
}
