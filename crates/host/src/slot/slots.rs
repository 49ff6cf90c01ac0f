//! The slots of the service: which are free, and their sockets.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use ::io::channel::Channel;
use ::io::reuseport::{RenewError, ReuseportGroup};

use super::protocol::Answer;
use super::{RESERVED, SLOTS};

/// The slots there are.
#[derive(Debug)]
pub(super) struct Slots {
    group: Result<ReuseportGroup, String>,
    /// Free slots. The one that was given back first is handed out first, so that a number rests.
    free: VecDeque<usize>,
    /// Slots given back whose socket is to be replaced.
    leaving: VecDeque<usize>,
}

impl Slots {
    pub(super) fn new(group: ReuseportGroup) -> Self {
        let free = (0..SLOTS).filter(|slot| !RESERVED.contains(slot)).collect();
        Self { group: Ok(group), free, leaving: VecDeque::new() }
    }

    pub(super) fn none(reason: String) -> Self {
        Self { group: Err(reason), free: VecDeque::new(), leaving: VecDeque::new() }
    }

    /// Whether sockets wait to be replaced.
    pub(super) fn is_renewing(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Hands out a slot on a connection.
    pub(super) fn grant(&mut self, channel: &Channel) -> io::Result<Option<u8>> {
        self.renew();
        let group = match &self.group {
            Ok(group) => group,
            Err(reason) => return channel.send(&Answer::Refused(reason.clone()).emit(), &[]).map(|()| None),
        };
        let granted = self.free.pop_front().and_then(|slot| Some((slot, group.socket(slot)?)));
        let Some((slot, socket)) = granted else {
            let reason = format!(
                "all {} places on the RoCE v2 port are taken: end some programs",
                SLOTS - RESERVED.len()
            );
            return channel.send(&Answer::Refused(reason).emit(), &[]).map(|()| None);
        };
        channel.send(&Answer::Granted(slot as u8).emit(), &[socket.as_fd()])?;
        Ok(Some(slot as u8))
    }

    pub(super) fn give_back(&mut self, slot: u8) {
        self.leaving.push_back(slot.into());
        self.renew();
    }

    /// Replaces the sockets of slots given back, so that nothing of the last owner is left in them.
    pub(super) fn renew(&mut self) {
        let Ok(group) = &mut self.group else { return };
        while let Some(&slot) = self.leaving.front() {
            match group.renew(slot) {
                Ok(()) => {
                    self.leaving.pop_front();
                    self.free.push_back(slot);
                }
                Err(RenewError::StillHeld | RenewError::OtherStillHeld(_)) => return,
                // Out of some resource: try again with the next interval.
                Err(_) => return,
            }
        }
    }
}
