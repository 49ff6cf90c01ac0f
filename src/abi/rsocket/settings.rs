//! What sockets are made with, and what an administrator says about that.

use std::{fs, str::FromStr, sync::LazyLock};

use super::stream::Sizes;

/// Sizes that a program may set before it connects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub send_queue: u16,
    pub receive_queue: u16,
    pub inline: u32,
    pub send_memory: u32,
    pub receive_memory: u32,
    /// Mappings that the peer may tell of.
    pub mappings: u32,
}

/// Where the defaults may be set, a number in each file.
const DIRECTORY: &str = "/etc/rdma/rsocket";

/// The fewest entries of a queue.
const SMALLEST_QUEUE: u16 = 16;

/// The least memory of one direction.
const LEAST_MEMORY: u32 = 1 << 12;

/// The most that is registered for one direction.
const MOST_MEMORY: u32 = 1 << 28;

impl Settings {
    /// The defaults of this machine.
    pub fn of_machine() -> Self {
        static SETTINGS: LazyLock<Settings> = LazyLock::new(|| Settings {
            send_queue: read("sqsize_default", 384),
            receive_queue: read("rqsize_default", 384),
            inline: read("inline_default", 64),
            send_memory: read("wmem_default", 1 << 17),
            receive_memory: read("mem_default", 1 << 17),
            mappings: read("iomap_size", 0),
        });
        *SETTINGS
    }

    /// The sizes that a stream is made with.
    pub fn sizes(&self) -> Sizes {
        let memory = |bytes: u32| bytes.clamp(LEAST_MEMORY, MOST_MEMORY) as usize;
        Sizes {
            send_queue: self.send_queue.max(SMALLEST_QUEUE),
            receive_queue: self.receive_queue.max(SMALLEST_QUEUE),
            send_memory: memory(self.send_memory),
            // Two halves that are offered in turn.
            receive_memory: memory(self.receive_memory).next_multiple_of(2),
        }
    }
}

/// A setting of the machine's, if it is a number.
fn read<T: FromStr>(name: &str, otherwise: T) -> T {
    let text = fs::read_to_string(format!("{DIRECTORY}/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or(otherwise)
}
