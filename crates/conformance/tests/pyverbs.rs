//! rdma-core's own test suite, which goes through pyverbs: what passes on the kernel's rxe passes on ours.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use conformance::{
    Family, Library, Node, Program, Scene,
    suite::{Shared, Suite},
};

/// Where Debian keeps it, partly compressed.
const INSTALLED: &str = "/usr/share/doc/rdma-core/tests";

/// Tests of particular adapters, which neither rxe nor ours is, and of connection management.
const LEFT_OUT: [&str; 4] = ["test_mlx5", "test_efa", "test_cuda", "test_rdmacm"];

/// What passes on rxe today, about. Fewer would mean that the comparison is empty.
const PASSING_AT_LEAST: usize = 80;

/// How a test ended, by its name: `ok`, `skipped '...'`, `FAIL` or `ERROR`.
type Endings = BTreeMap<String, String>;

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    let for_scene = Arc::clone(&library);
    let scene = Shared::new(move || Scene::kernel_server(&for_scene.obtain()?));
    suite.check("what passes on rxe passes on ours", move || compare(&*library.obtain()?, &*scene.obtain()?));
    suite.run()
}

fn compare(library: &Library, scene: &Scene) -> Result<()> {
    let directory = library.directory().join("pyverbs");
    unpack(&directory)?;
    let genuine = run(&scene.server, &directory)?;
    let ours = run(&scene.client, &directory)?;
    let passing = genuine.iter().filter(|(_, ending)| *ending == "ok");
    ensure!(passing.clone().count() >= PASSING_AT_LEAST, "few tests pass on rxe: {genuine:#?}");
    let failing: Vec<String> = passing
        .filter_map(|(name, _)| {
            let ending = ours.get(name).map_or("not run", String::as_str);
            (ending != "ok").then(|| format!("{name}: {ending}"))
        })
        .collect();
    ensure!(
        failing.is_empty(),
        "{} tests pass on rxe and not on ours:\n{}",
        failing.len(),
        failing.join("\n")
    );
    let wrong: Vec<_> = ours.iter().filter(|(_, ending)| *ending == "FAIL" || *ending == "ERROR").collect();
    // A test that fails on rxe may fail on ours in the same way, but no other.
    let wrong: Vec<_> =
        wrong.into_iter().filter(|(name, ending)| genuine.get(*name) != Some(ending)).collect();
    ensure!(wrong.is_empty(), "these must pass or be skipped: {wrong:#?}");
    Ok(())
}

fn unpack(directory: &Path) -> Result<()> {
    fs::create_dir(directory)?;
    for entry in fs::read_dir(INSTALLED).context("rdma-core's tests")? {
        let file = entry?.path();
        let name = file.file_name().context("a file")?.display().to_string();
        if LEFT_OUT.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let copy = directory.join(&name);
        fs::copy(&file, &copy)?;
        if name.ends_with(".gz") {
            Program::new("gunzip").arg(copy.display()).output()?;
        }
    }
    Ok(())
}

fn run(node: &Node, directory: &Path) -> Result<Endings> {
    let python = Program::new("/usr/bin/python3").env("PYTHONDONTWRITEBYTECODE", "1");
    let program = python.arg(directory.join("run_tests.py").display()).arg("-v");
    let program = program.arg("--dev").arg(node.device()?).arg("--gid").arg(node.gid_index(Family::V4)?);
    let finished = node.place(program.limit(Duration::from_secs(400))).run()?;
    let endings = endings(&finished.to_string());
    ensure!(!endings.is_empty(), "no test ran:\n{finished}");
    Ok(endings)
}

/// How each test ended, from what unittest prints: `test_a (tests.test_qp.QpTest.test_a) ... ok`, or the description of the
/// test on a second line, and the ending behind that.
fn endings(text: &str) -> Endings {
    let mut endings = Endings::new();
    let mut current = None;
    for line in text.lines() {
        if line.starts_with("test_") {
            current = line.split(['(', ')']).nth(1).map(str::to_owned);
        }
        let Some((_, ending)) = line.rsplit_once(" ... ") else { continue };
        if let Some(name) = current.take() {
            endings.insert(name, ending.trim().to_owned());
        }
    }
    endings
}
