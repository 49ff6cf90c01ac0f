//! Objects that C programs hold by pointer.
//!
//! Each is a structure of ours that begins with the structure of `verbs.h`. The program may write to its part at any time;
//! so that part is an [`UnsafeCell`], and nothing of ours depends on what stands there.

use std::{
    cell::UnsafeCell,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// A structure of ours that begins with one of `verbs.h`.
///
/// # Safety
///
/// The type is `repr(C)` and its first field is a [`Visible<Self::C>`].
pub(crate) unsafe trait Object: Sized {
    /// What the program sees of it.
    type C;

    /// Gives the object to the program.
    fn hand_out(self) -> *mut Self::C {
        Box::into_raw(Box::new(self)).cast()
    }

    /// The object that a program names.
    ///
    /// # Safety
    ///
    /// `c` came from [`Object::hand_out`] and was not taken back, nor is it while the reference lives: a program does not
    /// destroy what it still uses, say the manual pages of every call that destroys.
    unsafe fn of<'a>(c: *mut Self::C) -> &'a Self {
        // SAFETY: the caller promises that the object is alive; it begins with what `c` points to.
        unsafe { &*c.cast::<Self>() }
    }

    /// Takes the object back from the program, which destroys it.
    ///
    /// # Safety
    ///
    /// As for [`Object::of`], and no reference to it lives.
    unsafe fn take_back(c: *mut Self::C) {
        // SAFETY: the caller promises that the object is alive and unused.
        drop(unsafe { Box::from_raw(c.cast::<Self>()) });
    }

    /// The program's part of the object.
    fn c(&self) -> *mut Self::C {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// The part of an object that the program sees and may write to.
#[repr(transparent)]
pub(crate) struct Visible<C>(UnsafeCell<C>);

impl<C> Visible<C> {
    /// A part with these contents.
    pub fn new(c: C) -> Self {
        Self(UnsafeCell::new(c))
    }

    /// Where it lies.
    pub fn get(&self) -> *mut C {
        self.0.get()
    }
}

// SAFETY: it is only reached by pointer; whoever writes through that keeps to the rules of the call.
unsafe impl<C> Sync for Visible<C> {}
// SAFETY: as above.
unsafe impl<C> Send for Visible<C> {}

/// Events that a program was told of and has to acknowledge before their object may go.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements {
    outstanding: Mutex<u64>,
    none_left: Condvar,
}

impl Acknowledgements {
    /// The program was told of an event.
    pub fn expect_one(&self) {
        *self.lock() += 1;
    }

    /// The program acknowledges `count` events.
    pub fn acknowledge(&self, count: u64) {
        let mut outstanding = self.lock();
        *outstanding = outstanding.saturating_sub(count);
        if *outstanding == 0 {
            self.none_left.notify_all();
        }
    }

    /// Waits until every event was acknowledged.
    pub fn wait(&self) {
        let mut outstanding = self.lock();
        while *outstanding > 0 {
            outstanding = self.none_left.wait(outstanding).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.outstanding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread, time::Duration};

    use super::*;

    #[test]
    fn waiting_ends_with_the_last_acknowledgement() {
        let events = Arc::new(Acknowledgements::default());
        events.wait(); // nothing to wait for
        for _ in 0..3 {
            events.expect_one();
        }
        events.acknowledge(1);
        let waiter = thread::spawn({
            let events = events.clone();
            move || events.wait()
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        events.acknowledge(2);
        waiter.join().unwrap();
    }
}
