//! Queue pairs by number.

use alloc::boxed::Box;
use alloc::vec::Vec;

use wire::Qpn;

use super::QueuePair;
use crate::nic::Config;
use crate::table::{Full, Table};
use crate::verbs::DestroyError;

/// All queue pairs of an adapter. Their numbers end in the adapter's suffix; what is before it counts up
/// from a seeded start, so that a number is not used again soon and packets for an earlier queue pair
/// are not taken for a later one's.
#[derive(Debug)]
pub(crate) struct QpTable {
    table: Table<Box<QueuePair>>,
    suffix: u32,
    suffix_bits: u32,
}

impl QpTable {
    /// Queue pairs numbered as `config` says.
    ///
    /// # Panics
    /// If the suffix has more than 16 bits, or more than it says: that leaves too few numbers.
    pub fn new(config: &Config, start: u32) -> Self {
        let suffix_bits = u32::from(config.qpn_suffix_bits);
        assert!(suffix_bits <= 16 && config.qpn_suffix >> suffix_bits == 0, "unfit QPN suffix");
        // Numbers 0 and 1 are the management interfaces', 0xFFFFFF is multicast's (IBTA 10.5.1, 3.5.1).
        let numbers = 2..=(1 << (24 - suffix_bits)) - 2;
        let limit = config.limits.max_qp.min((numbers.end() - numbers.start()) / 4);
        Self { table: Table::new(limit, numbers, start), suffix: config.qpn_suffix, suffix_bits }
    }

    /// Adds the queue pair that `make` makes of its number.
    pub fn insert_with(&mut self, make: impl FnOnce(Qpn) -> QueuePair) -> Result<Qpn, Full> {
        let (suffix, bits) = (self.suffix, self.suffix_bits);
        let qpn = |number: u32| Qpn::new(number << bits | suffix);
        self.table.insert_with(|number| Box::new(make(qpn(number)))).map(qpn)
    }

    /// The queue pair of this number.
    pub fn get(&self, qpn: Qpn) -> Option<&QueuePair> {
        self.table.get(self.number(qpn)?).map(Box::as_ref)
    }

    /// The queue pair of this number.
    pub fn get_mut(&mut self, qpn: Qpn) -> Option<&mut QueuePair> {
        self.table.get_mut(self.number(qpn)?).map(Box::as_mut)
    }

    /// Counts a multicast group that a queue pair is a member of.
    pub fn retain(&mut self, qpn: Qpn) {
        self.table.retain(qpn.value() >> self.suffix_bits);
    }

    /// Counts one less.
    pub fn release(&mut self, qpn: Qpn) {
        self.table.release(qpn.value() >> self.suffix_bits);
    }

    /// Removes a queue pair that is in no multicast group.
    pub fn remove(&mut self, qpn: Qpn) -> Result<Box<QueuePair>, DestroyError> {
        let number = self.number(qpn).ok_or(DestroyError::UnknownHandle)?;
        self.table.remove(number)
    }

    /// The numbers of all queue pairs, in an order that depends on the calls made alone.
    pub fn numbers(&mut self) -> Vec<Qpn> {
        self.table.iter_mut().map(|(_, qp)| qp.qpn).collect()
    }

    fn number(&self, qpn: Qpn) -> Option<u32> {
        let number = qpn.value() >> self.suffix_bits;
        (qpn.value() == number << self.suffix_bits | self.suffix).then_some(number)
    }
}
