//! MurmurHash3 of 32 bits (Appleby 2011), over the words that the HPCC simulator for ns-3 gives it.

/// The hash of three words under a seed.
pub(crate) const fn murmur3(words: [u32; 3], seed: u32) -> u32 {
    let mut hash = seed;
    let mut index = 0;
    while index < words.len() {
        let word = words[index].wrapping_mul(0xCC9E_2D51).rotate_left(15).wrapping_mul(0x1B87_3593);
        hash = (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64);
        index += 1;
    }
    hash ^= 4 * words.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85EB_CA6B);
    hash = (hash ^ hash >> 13).wrapping_mul(0xC2B2_AE35);
    hash ^ hash >> 16
}

/// The address that the simulator gives to a node: 11.x.y.1 with the node's number in the middle.
pub(crate) const fn address(node: u32) -> u32 {
    0x0B00_0001 + ((node / 256) << 16) + ((node % 256) << 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_murmurs() {
        let words = [*b"abcd", *b"efgh", *b"ijkl"].map(u32::from_le_bytes);
        assert_eq!((murmur3(words, 0), murmur3(words, 20)), (0xA36F_3D27, 0x1EA1_B309));
        assert_eq!(murmur3([0; 3], 0), 0xD941_144B);
    }

    #[test]
    fn nodes_have_the_addresses_of_its_output() {
        assert_eq!((address(0), address(1), address(300)), (0x0B00_0001, 0x0B00_0101, 0x0B01_2C01));
    }
}
