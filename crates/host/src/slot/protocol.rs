//! What program and service say to each other: one message each way, over a sequenced-packet socket.
//!
//! The program speaks first. The connection then stays open for as long as the slot is in use.

/// Largest message.
pub(super) const MAX_MESSAGE: usize = 512;

/// The version of the protocol, first byte of the request. A service of another version says so.
const VERSION: u8 = 1;

const GRANTED: u8 = 1;
const REFUSED: u8 = 2;

/// A program asks for a slot.
pub(super) fn request() -> [u8; 1] {
    [VERSION]
}

/// Whether a message is a request that this service understands.
pub(super) fn is_request(message: &[u8]) -> bool {
    message == request()
}

/// The service's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The slot of this number is the program's; its socket comes with the message.
    Granted(u8),
    /// No slot, for this reason.
    Refused(String),
}

impl Answer {
    pub(super) fn emit(&self) -> Vec<u8> {
        match self {
            Self::Granted(slot) => vec![GRANTED, *slot],
            Self::Refused(reason) => {
                let mut message = vec![REFUSED];
                message.extend(reason.bytes().take(MAX_MESSAGE - 1));
                message
            }
        }
    }

    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        match message {
            [GRANTED, slot] => Some(Self::Granted(*slot)),
            [REFUSED, reason @ ..] => Some(Self::Refused(String::from_utf8_lossy(reason).into_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_wire() {
        for answer in [Answer::Granted(2), Answer::Granted(254), Answer::Refused("port taken".into())] {
            assert_eq!(Answer::parse(&answer.emit()), Some(answer));
        }
        assert_eq!(Answer::parse(&[]), None);
        assert_eq!(Answer::parse(&[GRANTED]), None);
        assert_eq!(Answer::parse(&[9, 9]), None);
        assert!(Answer::Refused("x".repeat(5000)).emit().len() <= MAX_MESSAGE);
    }

    #[test]
    fn other_versions_are_no_requests() {
        assert!(is_request(&request()));
        assert!(!is_request(&[]) && !is_request(&[VERSION + 1]) && !is_request(&[VERSION, 0]));
    }
}
