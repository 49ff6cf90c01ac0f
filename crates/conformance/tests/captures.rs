//! What our library puts on the wire between two of its own, judged by tshark and scapy.

use std::sync::Arc;

use anyhow::{Context, Result};
use conformance::{
    Capture, Family, Library, Recording, Scene, perftest, pingpong,
    scene::JUMBO,
    suite::{Shared, Suite},
};

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    for family in Family::ALL {
        let on_one_host = Arc::clone(&library);
        suite.check(format!("one host, {family}: ping-pongs"), move || {
            pingpongs(&Scene::one_host(&on_one_host.obtain()?)?, family)
        });
        for case in perftest::Case::few_for_emulated_hosts() {
            let library = Arc::clone(&library);
            suite.check(format!("two hosts, {family}: {case}"), move || {
                let scene = Scene::two_hosts(&library.obtain()?, JUMBO)?;
                let recording = Recording::start(&scene)?;
                case.play(&scene, family)?;
                recording.stop()?.is_clean()
            });
        }
    }
    suite.check("our own capture", move || own_capture(&library.obtain()?));
    suite.run()
}

fn pingpongs(scene: &Scene, family: Family) -> Result<()> {
    let recording = Recording::start(scene)?;
    for case in pingpong::Case::few_for_emulated_hosts() {
        case.play(scene, family).with_context(|| case.to_string())?;
    }
    // Sent again after 67 ms, which a busy machine may take for an answer: see perftest for that.
    let capture = recording.stop()?;
    capture.is_well_formed()?;
    capture.has_right_icrcs()
}

/// What `softverbs run --pcap` writes is as good as what tcpdump does.
fn own_capture(library: &Arc<Library>) -> Result<()> {
    let mut scene = Scene::two_hosts(library, JUMBO)?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("own.pcap");
    scene.client = scene.client.run_with(format!("--pcap={}", file.display()));
    let case = perftest::Case::few_for_emulated_hosts().into_iter().next().context("a case")?;
    case.play(&scene, Family::V4)?;
    Capture::open(&file).is_clean()
}
