//! Verbs of completion queues.

use super::Nic;
use crate::memory::Memory;
use crate::verbs::*;

impl<M: Memory> Nic<M> {
    /// Makes a completion queue of at least `capacity` entries; returns it and its real size.
    pub fn create_cq(&mut self, capacity: u32) -> Result<(Cq, u32), CreateError> {
        self.cqs.create(capacity)
    }

    /// Changes its size; returns the real one. A refused change leaves it as it was.
    pub fn resize_cq(&mut self, cq: Cq, capacity: u32) -> Result<u32, CqError> {
        self.cqs.resize(cq, capacity)
    }

    /// Unmakes one that no queue pair completes to. Its events are forgotten.
    pub fn destroy_cq(&mut self, cq: Cq) -> Result<(), DestroyError> {
        self.cqs.destroy(cq)?;
        self.events.retain(|event| event.completion_queue() != Some(cq));
        Ok(())
    }

    /// Takes the oldest completion. After an overrun, what came before it can still be had.
    pub fn poll_cq(&mut self, cq: Cq) -> Result<Option<Completion>, CqError> {
        self.cqs.poll(cq)
    }

    /// Asks for one [`Event::Completion`] at the next completion, or the next solicited or failed one.
    pub fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), CqError> {
        self.cqs.arm(cq, solicited_only)
    }
}
