//! Memory of the program that its peer writes to by an offset (`riomap`).

use std::{ffi::c_void, ptr::NonNull};

use host::{Access, MemoryRegion, ProtectionDomain};

use super::{
    link::Link,
    wire::{Mapping, Piece},
};
use crate::abi::errno::Errno;

/// The mappings of a socket.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// By index; a place may be free.
    places: Vec<Option<Mapped>>,
    /// What the peer has not been told of yet.
    untold: Vec<(u16, Mapping)>,
}

#[derive(Debug)]
struct Mapped {
    address: u64,
    length: usize,
    offset: u64,
    _region: MemoryRegion,
}

impl Mappings {
    /// Maps memory at an offset, or at its address if there is none; returns the offset.
    ///
    /// # Safety
    ///
    /// The memory stays mapped, readable and writable until [`Mappings::remove`].
    pub unsafe fn add(
        &mut self,
        pd: &ProtectionDomain,
        address: *mut c_void,
        length: usize,
        offset: Option<u64>,
        room: u32,
    ) -> Result<u64, Errno> {
        let length_told = u32::try_from(length).map_err(|_| Errno::INVALID)?;
        let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        let index = u16::try_from(free).ok().filter(|&index| u32::from(index) < room);
        let index = index.ok_or(Errno(libc::ENOMEM))?;
        let start = NonNull::new(address.cast::<u8>()).ok_or(Errno::INVALID)?;
        let offset = offset.unwrap_or(address as u64);
        let access = Access { local_write: true, remote_write: true, ..Access::default() };
        // SAFETY: the caller promises memory that stays; what the program reads in it is for it to arrange.
        let region = unsafe { pd.register_foreign(start, length, access)? };
        let remote = region.remote().at(0);
        let memory = Piece { address: remote.address, key: remote.rkey, length: length_told };
        if free == self.places.len() {
            self.places.push(None);
        }
        self.places[free] = Some(Mapped { address: address as u64, length, offset, _region: region });
        self.untold.push((index, Mapping { offset, memory }));
        Ok(offset)
    }

    /// Ends a mapping.
    pub fn remove(&mut self, address: *mut c_void, length: usize) -> Result<(), Errno> {
        let place = self.places.iter_mut().enumerate().find(|(_, place)| {
            place.as_ref().is_some_and(|mapped| mapped.address == address as u64 && mapped.length == length)
        });
        let (index, place) = place.ok_or(Errno::INVALID)?;
        let offset = place.take().map_or(0, |mapped| mapped.offset);
        // The place says that there is nothing any more.
        self.untold.retain(|(untold, _)| usize::from(*untold) != index);
        self.untold.push((index as u16, Mapping { offset, memory: Piece::default() }));
        Ok(())
    }

    /// Tells the peer what it does not know yet; false if there was no room for all of it.
    pub fn tell(&mut self, link: &mut Link) -> Result<bool, Errno> {
        while let Some(&(index, mapping)) = self.untold.first() {
            if !link.tell_mapping(index, mapping)? {
                return Ok(false);
            }
            self.untold.remove(0);
        }
        Ok(true)
    }
}
