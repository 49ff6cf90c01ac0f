//! Queue pairs by number.

use alloc::boxed::Box;

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

    fn number(&self, qpn: Qpn) -> Option<u32> {
        let number = qpn.value() >> self.suffix_bits;
        (qpn.value() == number << self.suffix_bits | self.suffix).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::{Cq, Pd, QpCapabilities, QpInit, QpType};

    const INIT: QpInit = QpInit {
        pd: Pd(1),
        qp_type: QpType::Rc,
        send_cq: Cq(1),
        recv_cq: Cq(1),
        srq: None,
        capabilities: QpCapabilities {
            max_send_wr: 1,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        signal_all: false,
    };

    fn table(qpn_suffix: u32, qpn_suffix_bits: u8, start: u32) -> QpTable {
        let config = Config { qpn_suffix, qpn_suffix_bits, ..Config::default() };
        QpTable::new(&config, start)
    }

    #[test]
    fn numbers_end_in_the_suffix_and_start_where_told() {
        let mut qps = table(0b101, 6, 1000);
        let first = qps.insert_with(|qpn| QueuePair::new(qpn, INIT, &Config::default())).unwrap();
        let second = qps.insert_with(|qpn| QueuePair::new(qpn, INIT, &Config::default())).unwrap();
        assert_eq!((first.value() & 0x3F, second.value() & 0x3F), (5, 5));
        assert_eq!((first.value() >> 6, second.value() >> 6), (1002, 1003));
        assert_eq!(qps.get(first).map(|qp| qp.qpn), Some(first));
        assert!(qps.get(Qpn::new(first.value() ^ 1)).is_none());
    }

    #[test]
    fn special_numbers_are_never_given() {
        let mut qps = table(0, 0, 0xFF_FFFE - 2);
        let mut next = || qps.insert_with(|qpn| QueuePair::new(qpn, INIT, &Config::default())).unwrap();
        assert_eq!(next(), Qpn::new(0xFF_FFFE));
        // After the wrap 2 would be next, but its slot is taken by the one above.
        assert_eq!(next(), Qpn::new(3));
    }

    #[test]
    fn a_number_is_not_used_again_soon() {
        let mut qps = table(3, 6, 0);
        let first = qps.insert_with(|qpn| QueuePair::new(qpn, INIT, &Config::default())).unwrap();
        for _ in 0..100_000 {
            let qpn = qps.insert_with(|qpn| QueuePair::new(qpn, INIT, &Config::default())).unwrap();
            assert_ne!(qpn, first);
            qps.remove(qpn).unwrap();
        }
        assert!(qps.get(first).is_some());
    }

    #[test]
    fn a_member_of_a_group_stays() {
        let mut qps = table(0, 0, 0);
        let qpn = qps.insert_with(|qpn| QueuePair::new(qpn, INIT, &Config::default())).unwrap();
        qps.retain(qpn);
        assert_eq!(qps.remove(qpn).err(), Some(DestroyError::Busy));
        qps.release(qpn);
        assert!(qps.remove(qpn).is_ok());
        assert_eq!(qps.remove(qpn).err(), Some(DestroyError::UnknownHandle));
    }
}
