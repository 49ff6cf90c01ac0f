//! A map that forgets what was put in first.

use alloc::collections::{BTreeMap, VecDeque};

/// At most so many entries: a new one drives out the oldest.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    /// Keys in the order in which they came, with their numbers; some are gone or came again.
    order: VecDeque<(u64, K)>,
    next: u64,
    limit: usize,
}

impl<K: Copy + Ord, V> Recent<K, V> {
    /// Nothing yet.
    pub fn new(limit: usize) -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new(), next: 0, limit }
    }

    /// Puts in an entry, or another value for one.
    pub fn insert(&mut self, key: K, value: V) {
        self.next += 1;
        self.entries.insert(key, (self.next, value));
        self.order.push_back((self.next, key));
        while self.entries.len() > self.limit {
            self.forget_one();
        }
        if self.order.len() > 2 * self.limit {
            let entries = &self.entries;
            self.order.retain(|(number, key)| entries.get(key).is_some_and(|entry| entry.0 == *number));
        }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key).map(|(_, value)| value)
    }

    /// All entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, (_, value))| (key, value))
    }

    fn forget_one(&mut self) {
        while let Some((number, key)) = self.order.pop_front() {
            if self.entries.get(&key).is_some_and(|entry| entry.0 == number) {
                self.entries.remove(&key);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first() {
        let mut recent = Recent::new(3);
        (0..3).for_each(|key| recent.insert(key, key * 10));
        recent.insert(0, 7);
        recent.insert(3, 30);
        assert_eq!((recent.get(&0), recent.get(&1)), (Some(&7), None));
        assert_eq!(recent.remove(&2), Some(20));
        recent.insert(4, 40);
        assert_eq!(recent.iter().map(|(key, _)| *key).collect::<std::vec::Vec<_>>(), [0, 3, 4]);
        for round in 0..1_000 {
            recent.insert(round % 4, round);
        }
        assert!(recent.order.len() <= 6 && recent.entries.len() == 3);
    }
}
