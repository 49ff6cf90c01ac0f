//! The states of a connection, and what moves it between them.
//!
//! [`TRANSITIONS`] is the whole truth (IBTA 12.9.5 to 12.9.7, and 12.11 for datagrams). What it does not
//! name changes nothing: it is a duplicate, to be answered again as the message handlers say, or it is
//! dropped. The picture below is rendered from it and compared with it by a test.
#![doc = include_str!("state.md")]

use Input::*;
use State::*;

/// Where a connection, or the resolution of a datagram service, stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Our REQ is out.
    ReqSent,
    /// The peer asked for patience with our REQ.
    MraReqRcvd,
    /// The peer's REP is here; our program has to conclude.
    RepRcvd,
    /// The peer's REQ is here; our program has to answer.
    ReqRcvd,
    /// Our REP is out.
    RepSent,
    /// The peer asked for patience with our REP.
    MraRepRcvd,
    /// Both sides know that both are ready.
    Established,
    /// Our DREQ is out.
    DreqSent,
    /// Over, but remembered for as long as packets may be under way: duplicates are answered again.
    Timewait,
    /// Our SIDR REQ is out.
    SidrReqSent,
    /// The peer's SIDR REQ is here; our program has to answer.
    SidrReqRcvd,
    /// Over. The number waits for its owner to give it back.
    Closed,
}

/// What moves it: a message from the peer, a verb of our program, or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The peer asks for patience.
    Mra,
    /// The peer refuses, or gives up.
    Rej,
    /// The peer accepts.
    Rep,
    /// The peer is ready.
    Rtu,
    /// The peer ends the connection.
    Dreq,
    /// The peer has ended the connection.
    Drep,
    /// The peer names its queue pair.
    SidrRep,
    /// Our program accepts.
    Accept,
    /// Our program refuses, or gives up.
    Reject,
    /// Our program is ready.
    Establish,
    /// Our program ends the connection.
    Disconnect,
    /// A packet arrived on the queue pair: the peer is ready, though its RTU is not here.
    Traffic,
    /// The peer uses its queue pair for another connection: it has forgotten this one.
    Superseded,
    /// The last retry, or the time to linger, is over.
    Expired,
}

/// Every change of state there is.
const TRANSITIONS: &[(State, Input, State)] = &[
    (ReqSent, Mra, MraReqRcvd),
    (ReqSent, Rep, RepRcvd),
    (ReqSent, Rej, Closed),
    (ReqSent, Reject, Closed),
    (ReqSent, Expired, Closed),
    (MraReqRcvd, Mra, MraReqRcvd),
    (MraReqRcvd, Rep, RepRcvd),
    (MraReqRcvd, Rej, Closed),
    (MraReqRcvd, Reject, Closed),
    (MraReqRcvd, Expired, Closed),
    (RepRcvd, Establish, Established),
    (RepRcvd, Reject, Timewait),
    (RepRcvd, Rej, Timewait),
    (RepRcvd, Dreq, Timewait),
    (RepRcvd, Superseded, Timewait),
    (ReqRcvd, Accept, RepSent),
    (ReqRcvd, Reject, Timewait),
    (ReqRcvd, Rej, Timewait),
    (ReqRcvd, Superseded, Timewait),
    (RepSent, Mra, MraRepRcvd),
    (RepSent, Rtu, Established),
    (RepSent, Traffic, Established),
    (RepSent, Reject, Timewait),
    (RepSent, Rej, Timewait),
    (RepSent, Dreq, Timewait),
    (RepSent, Superseded, Timewait),
    (RepSent, Expired, Timewait),
    (MraRepRcvd, Mra, MraRepRcvd),
    (MraRepRcvd, Rtu, Established),
    (MraRepRcvd, Traffic, Established),
    (MraRepRcvd, Reject, Timewait),
    (MraRepRcvd, Rej, Timewait),
    (MraRepRcvd, Dreq, Timewait),
    (MraRepRcvd, Superseded, Timewait),
    (MraRepRcvd, Expired, Timewait),
    (Established, Disconnect, DreqSent),
    (Established, Dreq, Timewait),
    (Established, Rej, Timewait),
    (Established, Superseded, Timewait),
    (DreqSent, Drep, Timewait),
    (DreqSent, Dreq, Timewait),
    (DreqSent, Rej, Timewait),
    (DreqSent, Superseded, Timewait),
    (DreqSent, Expired, Timewait),
    (SidrReqSent, SidrRep, Closed),
    (SidrReqSent, Reject, Closed),
    (SidrReqSent, Expired, Closed),
    (SidrReqRcvd, Accept, Timewait),
    (SidrReqRcvd, Reject, Timewait),
    (Timewait, Expired, Closed),
];

impl State {
    /// Where `input` leads, if anywhere.
    pub(super) fn after(self, input: Input) -> Option<State> {
        TRANSITIONS.iter().find(|(from, by, _)| (*from, *by) == (self, input)).map(|&(_, _, to)| to)
    }

    /// Whether the connection is over.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Timewait | Closed)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::string::String;

    use super::*;

    fn picture() -> String {
        let mut out = String::from("\n```mermaid\nstateDiagram-v2\n");
        for first in [ReqSent, ReqRcvd, SidrReqSent, SidrReqRcvd] {
            writeln!(out, "    [*] --> {first:?}").unwrap();
        }
        for (from, input, to) in TRANSITIONS {
            writeln!(out, "    {from:?} --> {to:?}: {input:?}").unwrap();
        }
        out + "```\n"
    }

    #[test]
    fn the_picture_shows_the_table() {
        let picture = picture();
        assert_eq!(include_str!("state.md"), picture, "replace cm/state.md by:\n{picture}");
    }

    #[test]
    fn no_change_is_named_twice_and_every_state_ends() {
        for (index, (from, input, _)) in TRANSITIONS.iter().enumerate() {
            assert!(TRANSITIONS[..index].iter().all(|(f, i, _)| (f, i) != (from, input)));
            assert_ne!(*from, Closed);
        }
        for (from, ..) in TRANSITIONS {
            // Our program can get out of every state, or time leads out of it.
            let exits = [Reject, Disconnect, Expired];
            assert!(exits.iter().any(|&input| from.after(input).is_some_and(|to| to != *from)), "{from:?}");
        }
    }
}
