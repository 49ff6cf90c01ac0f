//! Values that a program owns between two of its calls.

use std::mem;

use parking_lot::Mutex;

/// A value under a lock that one call takes and another gives back, as the verbs that work in several steps have it.
#[derive(Debug)]
pub(crate) struct Held<T>(Mutex<T>);

impl<T> Held<T> {
    /// A value that nobody holds.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Takes the lock, waiting for whoever holds it.
    pub fn take(&self) {
        mem::forget(self.0.lock());
    }

    /// Gives the lock back, if it is held.
    ///
    /// # Safety
    ///
    /// If it is held, then by the calling thread, which has no reference to the value any more.
    pub unsafe fn give_back(&self) {
        if self.0.is_locked() {
            // SAFETY: it is locked, by a guard that was forgotten.
            unsafe { self.0.force_unlock() };
        }
    }

    /// The value.
    ///
    /// # Safety
    ///
    /// The calling thread holds the lock, and has no other reference to the value.
    #[expect(clippy::mut_from_ref, reason = "the lock that is held makes the reference unique")]
    pub unsafe fn value(&self) -> &mut T {
        // SAFETY: the caller holds the lock and no other reference.
        unsafe { &mut *self.0.data_ptr() }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread, time::Duration};

    use super::*;

    #[test]
    fn the_next_holder_waits_until_the_value_is_given_back() {
        let held = Arc::new(Held::new(0));
        held.take();
        let other = thread::spawn({
            let held = held.clone();
            move || {
                held.take();
                // SAFETY: this thread holds the lock.
                let value = unsafe { *held.value() };
                // SAFETY: this thread holds the lock, and no reference.
                unsafe { held.give_back() };
                value
            }
        });
        thread::sleep(Duration::from_millis(20));
        // SAFETY: this thread holds the lock.
        unsafe { *held.value() = 7 };
        // SAFETY: this thread holds the lock, and no reference.
        unsafe { held.give_back() };
        assert_eq!(other.join().unwrap(), 7);
        // SAFETY: nobody holds the lock.
        unsafe { held.give_back() };
        held.take();
    }
}
