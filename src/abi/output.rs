//! Results into memory whose size the caller tells, because its headers may be older or newer than ours.

/// Writes as much of `value` as fits in `size` bytes at `to`, and zeroes what is left of them.
///
/// # Safety
///
/// `to` has room for `size` bytes.
pub(crate) unsafe fn write_prefix<T: Copy>(to: *mut T, value: &T, size: usize) {
    let known = size.min(size_of::<T>());
    let to = to.cast::<u8>();
    // SAFETY: the caller has room for `size` bytes, of which `known` exist in the value; the two do not overlap.
    unsafe {
        to.copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), known);
        to.add(known).write_bytes(0, size - known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_with_other_headers_get_what_they_know() {
        let value = [1_u32, 2, 3];
        for (size, expected) in [(8, [1, 2, 9, 9]), (12, [1, 2, 3, 9]), (16, [1, 2, 3, 0])] {
            let mut to = [9_u32; 4];
            // SAFETY: there is room for 16 bytes.
            unsafe { write_prefix(to.as_mut_ptr().cast::<[u32; 3]>(), &value, size) };
            assert_eq!(to, expected);
        }
    }
}
