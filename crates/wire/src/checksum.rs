//! The Internet checksum (RFC 1071).

/// A running sum over bytes that may come in pieces of any length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// A sum of 16-bit words that has not been folded: 2^48 of them fit.
    sum: u64,
    /// Whether an odd number of bytes was added, so that the next is a low half.
    odd: bool,
}

impl Checksum {
    /// The sum of nothing.
    pub const fn new() -> Self {
        Checksum { sum: 0, odd: false }
    }

    /// The sum with `bytes` appended to what was summed before.
    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Self {
        match bytes {
            [low, rest @ ..] if self.odd => {
                Checksum { sum: self.sum + u64::from(*low), odd: false }.add_words(rest)
            }
            _ => self.add_words(bytes),
        }
    }

    /// The checksum of what was summed.
    pub fn finish(self) -> u16 {
        let mut sum = self.sum;
        while sum > 0xFFFF {
            sum = (sum >> 16) + (sum & 0xFFFF);
        }
        !(sum as u16)
    }

    /// Adds bytes that begin at an even position; nothing if there are none.
    fn add_words(mut self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<2>();
        self.sum += words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum::<u64>();
        if let [high] = rest {
            self.sum += u64::from(*high) << 8;
            self.odd = true;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, 3.
    const WORDS: [u8; 8] = [0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7];

    #[test]
    fn the_example_of_the_rfc_holds() {
        assert_eq!(Checksum::new().update(&WORDS).finish(), !0xDDF2);
    }

    #[test]
    fn pieces_of_any_length_sum_up_alike() {
        for first in 0..=WORDS.len() {
            for second in first..=WORDS.len() {
                let sum = Checksum::new()
                    .update(&WORDS[..first])
                    .update(&WORDS[first..second])
                    .update(&WORDS[second..]);
                assert_eq!(sum.finish(), !0xDDF2, "split at {first} and {second}");
            }
        }
    }
}
