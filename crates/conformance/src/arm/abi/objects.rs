//! Objects of the C library by our names for them.

use std::collections::BTreeMap;

/// Objects of one kind.
pub(super) struct Objects<T> {
    next: u32,
    objects: BTreeMap<u32, *mut T>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self { next: 1, objects: BTreeMap::new() }
    }
}

impl<T> Objects<T> {
    /// Notes an object; returns its name.
    pub fn add(&mut self, object: *mut T) -> u32 {
        let name = self.next;
        self.next += 1;
        self.objects.insert(name, object);
        name
    }

    /// Notes an object that has a name.
    pub fn add_as(&mut self, name: u32, object: *mut T) {
        self.objects.insert(name, object);
    }

    /// The object of this name; null if there is none.
    pub fn get(&self, name: u32) -> *mut T {
        self.objects.get(&name).copied().unwrap_or_default()
    }

    /// The name of an object.
    pub fn name_of(&self, object: *const T) -> Option<u32> {
        self.objects.iter().find(|(_, other)| other.cast_const() == object).map(|(name, _)| *name)
    }

    /// The names of all objects.
    pub fn names(&self) -> impl Iterator<Item = u32> + use<'_, T> {
        self.objects.keys().copied()
    }

    /// Forgets an object.
    pub fn remove(&mut self, name: u32) {
        self.objects.remove(&name);
    }
}
