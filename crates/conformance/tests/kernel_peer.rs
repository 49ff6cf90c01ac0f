//! The same programs with the Linux kernel's rxe at one end and our library at the other, and what went over the wire.
//!
//! The network between the two loses nothing, so nothing may be sent twice: the kernel counts, and captures are searched. Only
//! perftest can be told to be patient; the ping-pongs send again after 67 ms, which a slow host may take for an answer.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use conformance::{
    Family, Library, Recording, Scene, perftest, pingpong,
    suite::{Shared, Suite},
};

/// Counters of rxe that move when something was sent again, or should not have been sent.
const TROUBLE: [&str; 7] = [
    "completer_retry_err",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_seq_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_err",
];

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    let kernel_server = Shared::new(move || Scene::kernel_server(&library.obtain()?));
    let same_hosts = Arc::clone(&kernel_server);
    let kernel_client = Shared::new(move || Ok(same_hosts.obtain()?.swapped("kernel client")));

    for scene in [(&kernel_server, "kernel server"), (&kernel_client, "kernel client")] {
        for family in Family::ALL {
            every_program(&mut suite, scene, family);
            capture(&mut suite, scene, family);
        }
    }
    // The emulated host has one processor, and its time is what local ACK timeouts are measured against.
    suite.one_at_a_time().run()
}

/// Every program and option over IPv4; over IPv6, where only addresses differ, every program.
fn every_program(suite: &mut Suite, (scene, name): (&Arc<Shared<Scene>>, &str), family: Family) {
    for case in pingpong::Case::for_emulated_hosts() {
        let scene = Arc::clone(scene);
        suite.check(format!("{name}, {family}: {case}"), move || {
            case.play(&*scene.obtain()?, family).map(drop)
        });
    }
    let cases = match family {
        Family::V4 => perftest::Case::for_emulated_hosts(),
        Family::V6 => perftest::Case::few_for_emulated_hosts(),
    };
    for case in cases {
        let scene = Arc::clone(scene);
        suite.check(format!("{name}, {family}: {case}"), move || {
            without_trouble(&*scene.obtain()?, |scene| case.play(scene, family).map(drop))
        });
    }
}

/// One of each kind under a capture, which must satisfy programs that are neither ours nor the kernel's.
fn capture(suite: &mut Suite, (scene, name): (&Arc<Shared<Scene>>, &str), family: Family) {
    let shared = Arc::clone(scene);
    suite.check(format!("{name}, {family}: a capture of perftest is clean"), move || {
        let scene = shared.obtain()?;
        let recording = Recording::start(&scene)?;
        for case in perftest::Case::few_for_emulated_hosts() {
            case.play(&scene, family).with_context(|| case.to_string())?;
        }
        recording.stop()?.is_clean()
    });
    let shared = Arc::clone(scene);
    suite.check(format!("{name}, {family}: a capture of ping-pongs is in order"), move || {
        let scene = shared.obtain()?;
        let recording = Recording::start(&scene)?;
        for case in pingpong::Case::few_for_emulated_hosts() {
            case.play(&scene, family).with_context(|| case.to_string())?;
        }
        let capture = recording.stop()?;
        capture.is_well_formed()?;
        capture.has_right_icrcs()
    });
}

/// Counters of rxe that move when a message found no receive. What was behind it is then sent again, as it must be.
const OUT_OF_RECEIVES: [&str; 2] = ["send_rnr_err", "rcvd_rnr_err"];

/// Plays, and asks the kernel whether anything went wrong that retransmission healed.
fn without_trouble(scene: &Scene, play: impl FnOnce(&Scene) -> Result<()>) -> Result<()> {
    let machine = scene.kernel().context("a scene with the kernel in it")?;
    let before = machine.counters()?;
    play(scene)?;
    let after = machine.counters()?;
    if OUT_OF_RECEIVES.iter().any(|name| before.get(*name) != after.get(*name)) {
        return Ok(());
    }
    for name in TROUBLE {
        let (before, after) = (before.get(name), after.get(name));
        ensure!(before.is_some(), "rxe has no counter {name}");
        ensure!(before == after, "rxe counts {name}: {before:?} before, {after:?} after");
    }
    Ok(())
}
