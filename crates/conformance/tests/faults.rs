//! Packets lost, late, doubled and damaged on real sockets: a reliable connection still delivers everything, once, in order.
//!
//! No ping-pongs: a program that ends with its last message cannot see to it that its last acknowledgement arrives, and its
//! peer then fails, on every stack. perftest says goodbye over TCP.
//!
//! With `--ignored` (as in `scripts/soak`) the same runs for millions of operations.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use conformance::{
    Family, Library, Scene, perftest,
    scene::JUMBO,
    suite::{Shared, Suite},
};

/// What happens to packets, in both directions. Seeded, so that a run can be had again.
const FAULTS: [&str; 7] = [
    "loss=1%,seed=1",
    "loss=5%,seed=2",
    "loss=10%,seed=3",
    "reorder=5%,seed=4",
    "duplicate=5%,seed=5",
    "corrupt=5%,seed=6",
    "loss=2%,reorder=2%,duplicate=2%,corrupt=2%,seed=7",
];

/// A checked mix of every kind of operation.
const OPERATIONS: &str = "crates/conformance/programs/operations.c";

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    {
        let library = Arc::clone(&library);
        suite.check("no faults: operations", move || operations(&library.obtain()?, None, 200_000));
    }
    for faults in FAULTS {
        for_faults(&mut suite, &library, faults);
    }
    suite.run()
}

fn for_faults(suite: &mut Suite, library: &Arc<Shared<Library>>, faults: &'static str) {
    let here = Arc::clone(library);
    suite.check(format!("{faults}: operations"), move || operations(&here.obtain()?, Some(faults), 10_000));
    let here = Arc::clone(library);
    suite.check_when_asked(format!("{faults}: a million operations"), move || {
        operations(&here.obtain()?, Some(faults), 1_000_000)
    });
    for case in perftest::Case::reliable() {
        let library = Arc::clone(library);
        suite.check(format!("{faults}: {case}"), move || {
            case.play(&two_hosts(&library, faults)?, Family::V6).map(drop)
        });
    }
}

fn two_hosts(library: &Shared<Library>, faults: &str) -> Result<Scene> {
    Ok(Scene::two_hosts(&library.obtain()?, JUMBO)?.run_with(&format!("--fault={faults}")))
}

fn operations(library: &Arc<Library>, faults: Option<&str>, count: u32) -> Result<()> {
    let program = library.compile(Path::new(OPERATIONS))?.arg(count).arg(count);
    let mut scene = Scene::one_host(library)?;
    if let Some(faults) = faults {
        scene = scene.run_with(&format!("--fault={faults}"));
    }
    // A lost packet costs a local ACK timeout of some 33 ms, and of ten operations up to two lose one.
    let limit = Duration::from_secs(60) + Duration::from_millis(10) * count;
    let told = scene.server.place(program.limit(limit)).output()?;
    ensure!(told.starts_with(&format!("{count} operations right")), "{told}");
    println!("{}: {}", faults.unwrap_or("no faults"), told.trim());
    Ok(())
}
