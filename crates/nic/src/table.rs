//! A table of numbered objects: constant-time access, and no number used twice soon.
//!
//! Numbers are given out in sequence and wrap only at the end of their space, so a stale handle, key or
//! queue pair number is refused for as long as the space allows. An object lies in the slot its number
//! names modulo the number of slots (a power of two, at least twice the number of objects); a number
//! whose slot is taken is skipped. There is no hashing and the order of iteration depends only on the
//! calls made.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::verbs::DestroyError;

/// As many objects as were allowed exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Objects by number, each with a count of the objects that use it.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Option<Entry<T>>>,
    live: usize,
    limit: usize,
    numbers: RangeInclusive<u32>,
    next: u32,
}

#[derive(Debug)]
struct Entry<T> {
    number: u32,
    users: u32,
    value: T,
}

const FEWEST_SLOTS: usize = 4;

impl<T> Table<T> {
    /// At most `limit` objects, numbered from `numbers`, the first of them near `start`.
    ///
    /// # Panics
    /// If there are fewer than four times as many numbers as objects: slots would not find a free number.
    pub fn new(limit: u32, numbers: RangeInclusive<u32>, start: u32) -> Self {
        let count = u64::from(numbers.end() - numbers.start()) + 1;
        assert!(
            count >= 4 * u64::from(limit).max(FEWEST_SLOTS as u64),
            "too few numbers for {limit} objects"
        );
        let next = numbers.start() + (u64::from(start) % count) as u32;
        Self { slots: Vec::new(), live: 0, limit: limit as usize, numbers, next }
    }

    /// At most `limit` objects, numbered from 1; or fewer, if there are not numbers enough.
    pub fn with_limit(limit: u32) -> Self {
        Self::new(limit.min(u32::MAX / 4), 1..=u32::MAX, 0)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Adds the object that `make` makes of its number.
    pub fn insert_with(&mut self, make: impl FnOnce(u32) -> T) -> Result<u32, Full> {
        if self.live >= self.limit {
            return Err(Full);
        }
        if (self.live + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let number = self.free_number();
        let slot = self.slot(number);
        self.slots[slot] = Some(Entry { number, users: 0, value: make(number) });
        self.live += 1;
        Ok(number)
    }

    /// Adds an object.
    pub fn insert(&mut self, value: T) -> Result<u32, Full> {
        self.insert_with(|_| value)
    }

    /// The object of this number.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.entry(number).map(|entry| &entry.value)
    }

    /// The object of this number.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entry_mut(number).map(|entry| &mut entry.value)
    }

    /// Whether there is an object of this number.
    pub fn contains(&self, number: u32) -> bool {
        self.entry(number).is_some()
    }

    /// Counts one more user of an object, which must exist.
    pub fn retain(&mut self, number: u32) {
        if let Some(entry) = self.entry_mut(number) {
            entry.users += 1;
        } else {
            debug_assert!(false, "object {number} does not exist");
        }
    }

    /// Counts one user less.
    pub fn release(&mut self, number: u32) {
        if let Some(entry) = self.entry_mut(number) {
            debug_assert!(entry.users > 0, "object {number} is released more often than it was retained");
            entry.users = entry.users.saturating_sub(1);
        } else {
            debug_assert!(false, "object {number} does not exist");
        }
    }

    /// How many objects use it; zero if it does not exist.
    #[cfg(test)]
    pub fn users(&self, number: u32) -> u32 {
        self.entry(number).map_or(0, |entry| entry.users)
    }

    /// Removes an object that no other uses.
    pub fn remove(&mut self, number: u32) -> Result<T, DestroyError> {
        let entry = self.entry(number).ok_or(DestroyError::UnknownHandle)?;
        if entry.users > 0 {
            return Err(DestroyError::Busy);
        }
        let slot = self.slot(number);
        self.live -= 1;
        self.slots[slot].take().map(|entry| entry.value).ok_or(DestroyError::UnknownHandle)
    }

    /// All objects with their numbers, in the order of their slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.slots.iter_mut().flatten().map(|entry| (entry.number, &mut entry.value))
    }

    fn slot(&self, number: u32) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    fn entry(&self, number: u32) -> Option<&Entry<T>> {
        // An empty table has no slots, and wraps to an index that `get` refuses.
        let slot = number as usize & self.slots.len().wrapping_sub(1);
        self.slots.get(slot)?.as_ref().filter(|entry| entry.number == number)
    }

    fn entry_mut(&mut self, number: u32) -> Option<&mut Entry<T>> {
        let slot = number as usize & self.slots.len().wrapping_sub(1);
        self.slots.get_mut(slot)?.as_mut().filter(|entry| entry.number == number)
    }

    /// Doubles the slots. Numbers that differed modulo the old count differ modulo the new one.
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(FEWEST_SLOTS);
        let old = core::mem::take(&mut self.slots);
        self.slots.resize_with(count, || None);
        for entry in old.into_iter().flatten() {
            let slot = self.slot(entry.number);
            self.slots[slot] = Some(entry);
        }
    }

    /// The next number whose slot is free; at least half of the slots are.
    fn free_number(&mut self) -> u32 {
        loop {
            let number = self.next;
            self.next = if number == *self.numbers.end() { *self.numbers.start() } else { number + 1 };
            if self.slots[self.slot(number)].is_none() {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn numbers_are_not_reused_until_the_space_is_used_up() {
        let mut table = Table::new(4, 10..=41, 0);
        let seen: Vec<u32> = (0..33)
            .map(|value| {
                let number = table.insert(value).unwrap();
                table.remove(number).unwrap();
                number
            })
            .collect();
        assert_eq!(seen[..32], (10..=41).collect::<Vec<_>>());
        assert_eq!(seen[32], 10);
    }

    #[test]
    fn the_limit_holds() {
        let mut table = Table::with_limit(2);
        let first = table.insert('a').unwrap();
        table.insert('b').unwrap();
        assert_eq!(table.insert('c'), Err(Full));
        assert_eq!(table.remove(first), Ok('a'));
        assert!(table.insert('c').is_ok());
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn what_is_used_cannot_be_removed() {
        let mut table = Table::with_limit(2);
        let number = table.insert(()).unwrap();
        table.retain(number);
        table.retain(number);
        assert_eq!(table.remove(number), Err(DestroyError::Busy));
        table.release(number);
        assert_eq!(table.users(number), 1);
        table.release(number);
        assert_eq!(table.remove(number), Ok(()));
        assert_eq!(table.remove(number), Err(DestroyError::UnknownHandle));
        assert!(!table.contains(number));
    }

    #[test]
    fn an_empty_table_knows_no_number() {
        let table = Table::<()>::with_limit(1);
        assert!([0, 1, u32::MAX].iter().all(|&number| !table.contains(number)));
    }

    proptest::proptest! {
        /// Against a plain map: a long-lived object is found however much comes and goes around it.
        #[test]
        fn behaves_like_a_map(steps in proptest::collection::vec((0..3u8, 0..64usize), 1..400)) {
            let mut table = Table::new(24, 2..=200, 190);
            let mut model = BTreeMap::new();
            for (value, (step, pick)) in steps.into_iter().enumerate() {
                let picked = model.keys().nth(pick % model.len().max(1)).copied();
                match (step, picked) {
                    (0, Some(number)) => {
                        assert_eq!(table.remove(number).ok(), model.remove(&number));
                    }
                    _ => match table.insert(value) {
                        Ok(number) => assert_eq!(model.insert(number, value), None),
                        Err(Full) => assert_eq!(model.len(), 24),
                    },
                }
                assert_eq!(table.len(), model.len());
                for number in 0..=201 {
                    assert_eq!(table.get(number), model.get(&number));
                }
            }
        }
    }
}
