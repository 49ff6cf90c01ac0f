//! What the input says. Small numbers pick among what exists at the time.
//!
//! Choices are made by single bytes, so that a changed byte changes little.

use arbitrary::{Arbitrary, Result, Unstructured};

/// How the world begins.
#[derive(Arbitrary, Clone, Debug)]
pub struct Setup {
    pub allowed: Allowed,
    /// Seeds both adapters.
    pub seed: u8,
    /// In kilobytes, plus one.
    pub window: u8,
    pub is_ipv6: bool,
    /// Whether completion queues are short, and may overrun.
    pub is_cramped: bool,
}

/// Which operations are carried out; the others are skipped. Most of what the model knows is only known
/// as long as nothing bad was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowed {
    /// Requests that must succeed, on a network that is not good.
    Traffic,
    /// Also calls that change and destroy objects.
    Verbs,
    /// Everything.
    All,
}

/// One of the two adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    pub const BOTH: [Side; 2] = [Side::Left, Side::Right];

    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }

    pub fn index(self) -> usize {
        self as usize
    }
}

/// A queue pair: one of the pairs, and the side it is on.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct End {
    pub pair: u8,
    pub side: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Rc,
    Uc,
    Ud,
}

#[derive(Arbitrary, Clone, Debug)]
pub struct Connect {
    pub transport: Transport,
    pub mtu: u8,
    pub rd_atomic: u8,
    pub first_psn: u32,
    pub shared_receive_queue: bool,
    pub signal_all: bool,
    pub finite_rnr_retry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    Send,
    SendWithImmediate,
    /// To a multicast group, if it is a datagram.
    SendToGroup,
    Write,
    WriteWithImmediate,
    Read,
    CompareSwap {
        hit: bool,
    },
    FetchAdd,
}

#[derive(Arbitrary, Clone, Debug)]
pub struct Post {
    pub end: End,
    pub message: Message,
    pub length: u16,
    pub cuts: u8,
    pub inline: bool,
    /// A signaled or solicited or fenced request, by its bits.
    pub flags: u8,
    /// Through a memory window, if one is bound.
    pub through_window: bool,
}

/// A change of a packet.
#[derive(Clone, Debug)]
pub enum Mutation {
    Flip { at: u8, bits: u8 },
    Truncate { to: u8 },
    Extend { by: u8 },
}

/// A packet nobody sent.
#[derive(Arbitrary, Clone, Debug)]
pub struct Forgery {
    pub to: End,
    pub opcode: u8,
    pub ahead: i8,
    pub ack_request: bool,
    pub headers: [u8; 28],
    pub key: u8,
    pub address: Address,
    pub length: u16,
}

/// Where a request points, relative to the memory of its target.
#[derive(Clone, Copy, Debug)]
pub enum Address {
    /// From the start of the memory.
    Inside(u16),
    /// So far from the end of all addresses.
    Top(u8),
    /// A small number.
    Small(u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Rights(pub u8);

/// A change of a queue pair's attributes that need not be legal.
#[derive(Arbitrary, Clone, Debug)]
pub struct Change {
    pub state: Option<State>,
    pub claims_state: bool,
    pub sqd_notify: Option<bool>,
    pub access: Option<Rights>,
    pub init: bool,
    pub path: bool,
    pub path_mtu: Option<u8>,
    pub timers: Option<u8>,
    pub retries: Option<u8>,
    pub psn: Option<u32>,
    pub rd_atomic: Option<u8>,
    pub max_dest_rd_atomic: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
pub enum State {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Error,
}

/// A raw request that need not make sense.
#[derive(Arbitrary, Clone, Debug)]
pub struct Wild {
    pub end: End,
    pub operation: u8,
    pub key: u8,
    pub other_key: u8,
    pub address: Address,
    pub remote_address: Address,
    pub length: u32,
    pub window: u8,
    pub rights: Rights,
    pub flags: u8,
}

/// A region to be registered, or registered anew.
#[derive(Arbitrary, Clone, Debug)]
pub struct Region {
    pub side: Side,
    pub other_domain: bool,
    pub address: Address,
    pub length: u16,
    pub iova: Address,
    pub rights: Rights,
}

#[derive(Clone, Debug)]
pub enum Operation {
    // Traffic that must succeed, as far as the network lets it.
    Connect(Connect),
    Post(Post),
    Receive {
        end: End,
        count: u8,
    },
    ReceiveShared {
        side: Side,
        count: u8,
    },
    JoinGroup {
        end: End,
        leave: bool,
    },
    Bind {
        end: End,
    },
    Invalidate {
        end: End,
        by_peer: bool,
    },
    Drain {
        end: End,
        notify: bool,
    },
    Resume {
        end: End,
    },
    Relay {
        end: End,
    },

    // What happens to packets.
    Deliver {
        count: u8,
    },
    Lose {
        pick: u8,
    },
    Double {
        pick: u8,
    },
    Delay {
        pick: u8,
    },
    Wait {
        microseconds: u16,
    },
    /// Sends no more than so many runs after every operation.
    Hold {
        side: Side,
        runs: Option<u8>,
    },

    // Completions.
    Poll {
        side: Side,
        count: u8,
    },
    Arm {
        side: Side,
        receive: bool,
        solicited_only: bool,
    },

    // Objects.
    Modify {
        end: End,
        change: Change,
    },
    Destroy {
        end: End,
    },
    Register(Region),
    Reregister {
        pick: u8,
        region: Region,
    },
    Deregister {
        side: Side,
        pick: u8,
    },
    AllocateWindow {
        side: Side,
        other_domain: bool,
        type_2: bool,
    },
    DeallocateWindow {
        side: Side,
        pick: u8,
    },
    LimitShared {
        side: Side,
        limit: u8,
    },
    ResizeQueue {
        side: Side,
        receive: bool,
        more: u16,
    },
    SetGid {
        side: Side,
        present: bool,
    },

    // What nobody should do, and everybody must survive.
    Corrupt {
        pick: u8,
        mutation: Mutation,
    },
    Forge(Forgery),
    PostWild(Wild),
    ReceiveWild {
        end: End,
        key: u8,
        address: Address,
        length: u32,
    },
}

impl Operation {
    /// What must be allowed for it.
    pub fn needs(&self) -> Allowed {
        match self {
            Self::Connect(_)
            | Self::Post(_)
            | Self::Receive { .. }
            | Self::ReceiveShared { .. }
            | Self::JoinGroup { .. }
            | Self::Bind { .. }
            | Self::Invalidate { .. }
            | Self::Drain { .. }
            | Self::Resume { .. }
            | Self::Relay { .. }
            | Self::Deliver { .. }
            | Self::Lose { .. }
            | Self::Double { .. }
            | Self::Delay { .. }
            | Self::Wait { .. }
            | Self::Hold { .. }
            | Self::Poll { .. }
            | Self::Arm { .. } => Allowed::Traffic,
            Self::Modify { .. }
            | Self::Destroy { .. }
            | Self::Register(_)
            | Self::Reregister { .. }
            | Self::Deregister { .. }
            | Self::AllocateWindow { .. }
            | Self::DeallocateWindow { .. }
            | Self::LimitShared { .. }
            | Self::ResizeQueue { .. }
            | Self::SetGid { .. } => Allowed::Verbs,
            Self::Corrupt { .. } | Self::Forge(_) | Self::PostWild(_) | Self::ReceiveWild { .. } => {
                Allowed::All
            }
        }
    }
}

impl<'a> Arbitrary<'a> for Operation {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let choice: u8 = input.arbitrary()?;
        // Traffic is most of it: how it meets the rest is what is looked for.
        Ok(match choice {
            0..8 => Self::Connect(input.arbitrary()?),
            8..12 => Self::Relay { end: input.arbitrary()? },
            12..64 => Self::Post(input.arbitrary()?),
            64..84 => Self::Receive { end: input.arbitrary()?, count: input.arbitrary()? },
            84..90 => Self::ReceiveShared { side: input.arbitrary()?, count: input.arbitrary()? },
            90..94 => Self::JoinGroup { end: input.arbitrary()?, leave: input.arbitrary()? },
            94..100 => Self::Bind { end: input.arbitrary()? },
            100..104 => Self::Invalidate { end: input.arbitrary()?, by_peer: input.arbitrary()? },
            104..108 => Self::Drain { end: input.arbitrary()?, notify: input.arbitrary()? },
            108..112 => Self::Resume { end: input.arbitrary()? },
            112..150 => Self::Deliver { count: input.arbitrary()? },
            150..160 => Self::Lose { pick: input.arbitrary()? },
            160..166 => Self::Double { pick: input.arbitrary()? },
            166..172 => Self::Delay { pick: input.arbitrary()? },
            172..180 => Self::Wait { microseconds: input.arbitrary()? },
            180..182 => Self::Hold {
                side: input.arbitrary()?,
                runs: input.arbitrary::<Option<u8>>()?.map(|runs| runs % 3),
            },
            182..192 => Self::Poll { side: input.arbitrary()?, count: input.arbitrary()? },
            192..196 => Self::Arm {
                side: input.arbitrary()?,
                receive: input.arbitrary()?,
                solicited_only: input.arbitrary()?,
            },
            196..202 => Self::Modify { end: input.arbitrary()?, change: input.arbitrary()? },
            202..204 => Self::Destroy { end: input.arbitrary()? },
            204..210 => Self::Register(input.arbitrary()?),
            210..212 => Self::Reregister { pick: input.arbitrary()?, region: input.arbitrary()? },
            212..214 => Self::Deregister { side: input.arbitrary()?, pick: input.arbitrary()? },
            214..217 => Self::AllocateWindow {
                side: input.arbitrary()?,
                other_domain: input.arbitrary()?,
                type_2: input.arbitrary()?,
            },
            217..218 => Self::DeallocateWindow { side: input.arbitrary()?, pick: input.arbitrary()? },
            218..220 => Self::LimitShared { side: input.arbitrary()?, limit: input.arbitrary()? },
            220..221 => Self::ResizeQueue {
                side: input.arbitrary()?,
                receive: input.arbitrary()?,
                more: input.arbitrary()?,
            },
            221..223 => Self::SetGid { side: input.arbitrary()?, present: input.arbitrary()? },
            223..232 => Self::Corrupt { pick: input.arbitrary()?, mutation: input.arbitrary()? },
            232..242 => Self::Forge(input.arbitrary()?),
            242..253 => Self::PostWild(input.arbitrary()?),
            253.. => Self::ReceiveWild {
                end: input.arbitrary()?,
                key: input.arbitrary()?,
                address: input.arbitrary()?,
                length: input.arbitrary()?,
            },
        })
    }
}

/// Choices among a few, by one byte.
macro_rules! by_byte {
    ($($name:ident: $($value:expr),+;)+) => { $(
        impl<'a> Arbitrary<'a> for $name {
            fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
                let choices = [$($value),+];
                Ok(choices[usize::from(input.arbitrary::<u8>()?) % choices.len()])
            }
        }
    )+ };
}

by_byte! {
    Allowed: Self::Traffic, Self::Verbs, Self::All;
    Side: Self::Left, Self::Right;
    // The reliable one has the most to get wrong.
    Transport: Self::Rc, Self::Rc, Self::Rc, Self::Uc, Self::Ud;
    Message: Self::Send, Self::SendWithImmediate, Self::SendToGroup, Self::Write, Self::WriteWithImmediate,
        Self::Read, Self::Read, Self::CompareSwap { hit: true }, Self::CompareSwap { hit: false },
        Self::FetchAdd;
    State: Self::Reset, Self::Init, Self::Rtr, Self::Rts, Self::Sqd, Self::Sqe, Self::Error;
}

impl<'a> Arbitrary<'a> for Mutation {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let choice: u8 = input.arbitrary()?;
        Ok(match choice {
            0..230 => Self::Flip { at: input.arbitrary()?, bits: input.arbitrary()? },
            230..243 => Self::Truncate { to: input.arbitrary()? },
            243.. => Self::Extend { by: input.arbitrary()? },
        })
    }
}

impl<'a> Arbitrary<'a> for Address {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let choice: u8 = input.arbitrary()?;
        Ok(match choice {
            0..200 => Self::Inside(input.arbitrary()?),
            200..230 => Self::Top(input.arbitrary()?),
            230.. => Self::Small(input.arbitrary()?),
        })
    }
}
