//! What must hold of two adapters, whatever verbs are called on them and whatever happens to the packets
//! between them.
//!
//! Used by the fuzz target and by the test of `nic` that replays its corpus. The input is a list of
//! [`Operation`]s. Beside the adapters runs a naive model: lists of what was posted and of what the
//! memory must then hold.
//!
//! | module | idea |
//! |---|---|
//! | `operation` | what the input says |
//! | `memory` | memory that may only be touched where a live region lies |
//! | `network` | packets on their way: lost, late, doubled, forged |
//! | `ledger` | what was posted, and the completions that must come of it |
//! | `peer` | one adapter with its objects |
//! | `pair` | two queue pairs made for each other |
//! | `world` | everything together, and the rules |
//! | `traffic` | requests between pairs |
//! | `relay` | what a fence is for |
//! | `window` | memory windows that pairs use, and draining |
//! | `verbs` | calls that change objects |

mod ledger;
mod memory;
mod network;
mod operation;
mod pair;
mod peer;
mod relay;
mod traffic;
mod verbs;
mod window;
mod world;

use arbitrary::{Arbitrary, Unstructured};

use operation::{Operation, Setup};
use world::World;

/// Longer inputs are cut: what goes wrong does so in fewer steps.
const MOST_OPERATIONS: usize = 400;

/// Carries out the operations that `bytes` spell, and checks all along. A panic prints them.
pub fn check(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let mut world = World::new(&setup);
    let mut history = History(Vec::new());
    for _ in 0..MOST_OPERATIONS {
        if input.is_empty() {
            break;
        }
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        if operation.needs() <= setup.allowed {
            history.0.push(operation.clone());
            world.apply(&operation);
        }
    }
    world.finish();
}

/// What was done, told if it ends badly.
struct History(Vec<Operation>);

impl Drop for History {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for operation in &self.0 {
                eprintln!("{operation:?}");
            }
        }
    }
}
