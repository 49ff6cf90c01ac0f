//! The tables of programs with the kernel's stack at both ends: what fails here is wrong with a table, not with us.
//!
//! Two emulated hosts take their time, so these run when asked for: `cargo test --test genuine_stack -- --ignored`.

use std::{fmt::Display, sync::Arc};

use anyhow::Result;
use conformance::{
    Family, Scene, perftest, pingpong,
    suite::{Shared, Suite},
};

fn main() {
    let mut suite = Suite::new();
    let scene = Shared::new(Scene::kernel_only);
    for case in pingpong::Case::for_emulated_hosts() {
        check(&mut suite, &scene, case.clone(), move |scene| case.play(scene, Family::V4).map(drop));
    }
    for case in perftest::Case::for_emulated_hosts() {
        check(&mut suite, &scene, case.clone(), move |scene| case.play(scene, Family::V6).map(drop));
    }
    suite.run()
}

fn check(
    suite: &mut Suite,
    scene: &Arc<Shared<Scene>>,
    name: impl Display,
    play: impl FnOnce(&Scene) -> Result<()> + Send + 'static,
) {
    let scene = Arc::clone(scene);
    suite.check_when_asked(name.to_string(), move || play(&*scene.obtain()?));
}
