//! The perftest programs, unmodified, with our library at both ends.

use std::sync::Arc;

use conformance::{
    Family, Library, Scene,
    perftest::Case,
    scene::JUMBO,
    suite::{Shared, Suite},
};

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    let for_one = Arc::clone(&library);
    let one_host = Shared::new(move || Scene::one_host(&for_one.obtain()?));
    let two_hosts = Shared::new(move || Scene::two_hosts(&library.obtain()?, JUMBO));
    for (name, scene, family) in [("one host", &one_host, Family::V4), ("two hosts", &two_hosts, Family::V6)]
    {
        for case in Case::all() {
            let scene = Arc::clone(scene);
            suite.check(format!("{name}, {family}: {case}"), move || {
                case.play(&*scene.obtain()?, family).map(drop)
            });
        }
        for case in Case::few() {
            let scene = Arc::clone(scene);
            suite.check(format!("{name}, two at once: {case}"), move || {
                two_at_once(&case, &*scene.obtain()?, family)
            });
        }
    }
    suite.run()
}

fn two_at_once(case: &Case, scene: &Scene, family: Family) -> anyhow::Result<()> {
    let first = case.dialogue().start(scene, family)?;
    let second = case.dialogue().start(scene, family)?;
    case.judge(&first.finish()?)?;
    case.judge(&second.finish()?)
}
