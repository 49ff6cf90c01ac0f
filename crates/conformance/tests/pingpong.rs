//! The ping-pong programs of rdma-core, unmodified, with our library at both ends.

use std::sync::Arc;

use conformance::{
    Family, Library, Scene,
    pingpong::{Case, play_at_once},
    scene::{JUMBO, PLAIN},
    suite::{Shared, Suite},
};

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    let scene = |make: fn(&Arc<Library>) -> anyhow::Result<Scene>| {
        let library = Arc::clone(&library);
        Shared::new(move || make(&library.obtain()?))
    };
    let one_host = scene(Scene::one_host);
    let two_hosts = scene(|library| Scene::two_hosts(library, JUMBO));
    let plain = scene(|library| Ok(Scene::two_hosts(library, PLAIN)?.named("two hosts, MTU 1500")));
    let unprivileged = scene(|library| Ok(Scene::one_host(library)?.unprivileged("unprivileged")));

    all(&mut suite, "one host", &one_host, &Family::ALL, Case::all);
    all(&mut suite, "two hosts", &two_hosts, &Family::ALL, Case::all);
    all(&mut suite, "unprivileged", &unprivileged, &Family::ALL[..1], Case::all);
    all(&mut suite, "MTU 1500", &plain, &Family::ALL, Case::fitting_plain_ethernet);
    for (name, scene) in [("one host", &one_host), ("two hosts", &two_hosts), ("unprivileged", &unprivileged)]
    {
        eight_at_once(&mut suite, name, scene);
    }
    suite.run()
}

fn all(
    suite: &mut Suite,
    name: &str,
    scene: &Arc<Shared<Scene>>,
    families: &[Family],
    cases: fn() -> Vec<Case>,
) {
    for &family in families {
        for case in cases() {
            let scene = Arc::clone(scene);
            suite.check(format!("{name}, {family}: {case}"), move || {
                case.play(&*scene.obtain()?, family).map(drop)
            });
        }
    }
}

/// Sixteen programs share the machine, and in the scene of one host the address too.
fn eight_at_once(suite: &mut Suite, name: &str, scene: &Arc<Shared<Scene>>) {
    for case in Case::few() {
        let scene = Arc::clone(scene);
        suite.check(format!("{name}, eight at once: {case}"), move || {
            play_at_once(&case, 8, &*scene.obtain()?, Family::V4)
        });
    }
}
