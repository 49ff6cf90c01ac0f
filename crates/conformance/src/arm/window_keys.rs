//! The keys of type 1 windows, which whoever stands above the adapter chooses: in C programs, libibverbs.

use std::collections::BTreeMap;

use nic::verbs::{Binding, Mw, SendData, SendFlags, SendOperation, SendRequest};

use super::{Refusal, Verb};

/// The key of each window's last bind.
#[derive(Debug, Default)]
pub(super) struct WindowKeys(BTreeMap<Mw, u32>);

impl WindowKeys {
    /// Notes a window's first key.
    pub fn set(&mut self, window: Mw, key: u32) {
        self.0.insert(window, key);
    }

    /// Posts the bind of a window of type 1 under its next key, which is returned.
    pub fn bind(
        &mut self,
        window: Mw,
        wr_id: u64,
        binding: &Binding,
        post: impl FnOnce(&SendRequest<'_>) -> Verb<()>,
    ) -> Verb<u32> {
        let key = self.0.get_mut(&window).ok_or(Refusal::Invalid)?;
        let next = *key & !0xFF | u32::from((*key as u8).wrapping_add(1));
        post(&SendRequest {
            wr_id,
            operation: SendOperation::BindWindow { window, rkey: next, binding: *binding },
            data: SendData::Gather(&[]),
            flags: SendFlags { signaled: true, ..SendFlags::default() },
            destination: None,
        })?;
        *key = next;
        Ok(next)
    }
}
