//! The C programs of `tests/c` print the same on the genuine library, over the kernel's rxe, and on ours.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use conformance::{
    Library, Scene,
    library::project_root,
    suite::{Shared, Suite},
};

/// Where the two differ for a reason: program, what both lines start with, the reason.
const DIFFERENCES: &[(&str, &str, &str)] = &[];

/// Programs with which there is nothing to compare.
const OURS_ALONE: [(&str, &str); 4] = [
    ("cm", "connection management checks itself, and is run by the tests of the C library"),
    ("sockets", "rsockets check themselves, likewise"),
    ("strict", "what rxe does otherwise than IBTA says"),
    ("versions", "looks symbols up in our shared object by its path"),
];

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    let for_scene = Arc::clone(&library);
    let scene = Shared::new(move || Scene::kernel_server(&for_scene.obtain()?));
    for source in sources() {
        let name = source.file_stem().expect("a file name").display().to_string();
        if OURS_ALONE.iter().any(|(alone, _)| *alone == name) {
            continue;
        }
        let (library, scene) = (Arc::clone(&library), Arc::clone(&scene));
        suite.check(name.clone(), move || compare(&name, &source, &*library.obtain()?, &*scene.obtain()?));
    }
    suite.one_at_a_time().run()
}

fn sources() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(project_root().join("tests/c")).expect("tests/c is there");
    let files = entries.map(|entry| entry.expect("a readable folder").path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "c")).collect()
}

fn compare(name: &str, source: &Path, library: &Library, scene: &Scene) -> Result<()> {
    let program = library.compile(source)?;
    let kernel = scene
        .server
        .place(program.clone().arg(scene.server.device()?))
        .output()
        .context("the genuine library")?;
    let ours = scene.client.place(program.arg(scene.client.device()?)).output().context("ours")?;
    let (kernel, ours): (Vec<&str>, Vec<&str>) =
        (kernel.trim().lines().collect(), ours.trim().lines().collect());
    let mut expected: BTreeSet<&str> = of(name).map(|(_, start, _)| *start).collect();
    let mut wrong = Vec::new();
    for line in 0..kernel.len().max(ours.len()) {
        let (theirs, own) =
            (kernel.get(line).copied().unwrap_or("(end)"), ours.get(line).copied().unwrap_or("(end)"));
        if theirs == own {
            continue;
        }
        match of(name).find(|(_, start, _)| theirs.starts_with(start) && own.starts_with(start)) {
            Some((_, start, _)) => _ = expected.remove(start),
            None => wrong.push(format!("line {}:\n  genuine: {theirs}\n  ours:    {own}", line + 1)),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(expected.is_empty(), "no longer different: {expected:?}");
    ensure!(!kernel.is_empty(), "nothing was printed, so nothing is shown");
    Ok(())
}

/// The differences of one program.
fn of(name: &str) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
    DIFFERENCES.iter().filter(move |(program, _, _)| *program == name)
}
