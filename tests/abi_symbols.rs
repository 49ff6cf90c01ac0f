//! The shared object has the symbols of libibverbs 44 and librdmacm 44: the same names with the same versions, and no other.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

/// The genuine libraries' symbols, as `nm` lists them: a letter for the kind, the name, its version.
const GENUINE: [(&str, &str); 2] = [
    ("libibverbs.so.1", include_str!("golden/libibverbs-44.symbols")),
    ("librdmacm.so.1", include_str!("golden/librdmacm-44.symbols")),
];

/// The version script that the linker is given.
const MAP: &str = include_str!("../libsoftverbs.map");

/// What `nm` lists of a shared object, one `kind name@version` for each symbol it defines.
fn symbols(library: &Path) -> BTreeSet<String> {
    let listed = Command::new("nm")
        .args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(library)
        .output()
        .expect("nm");
    assert!(listed.status.success(), "{listed:?}");
    let text = String::from_utf8(listed.stdout).expect("text");
    let symbols = text.lines().map(|line| line.split_once(' ').expect("an address").1.to_owned());
    symbols.filter(|symbol| !symbol.starts_with("A ")).collect() // GNU ld lists the versions themselves, lld does not
}

/// The symbols of all genuine libraries.
fn genuine() -> impl Iterator<Item = &'static str> {
    GENUINE.iter().flat_map(|(_, symbols)| symbols.lines())
}

/// Names by version, from a list of symbols.
fn by_version<'a>(symbols: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut versions = BTreeMap::<_, BTreeSet<_>>::new();
    for symbol in symbols {
        let (_, symbol) = symbol.split_once(' ').expect("a kind");
        let (name, version) = symbol.split_once('@').expect("a version");
        versions.entry(version.trim_start_matches('@')).or_default().insert(name);
    }
    versions
}

/// Names by version, from a version script.
fn by_version_in_map(map: &'static str) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut versions = BTreeMap::<_, BTreeSet<_>>::new();
    let mut version = "";
    for line in map.lines().map(str::trim) {
        if let Some(opened) = line.strip_suffix(" {") {
            version = opened;
        } else if let Some(name) = line.strip_suffix(';').filter(|name| !name.contains(['}', ':'])) {
            versions.entry(version).or_default().insert(name);
        }
    }
    versions
}

#[test]
fn the_shared_object_has_the_symbols_of_the_genuine_libraries_and_no_other() {
    let ours = symbols(&common::shared_object());
    let genuine = genuine().map(str::to_owned).collect();
    let missing: Vec<_> = ours.symmetric_difference(&genuine).collect();
    assert_eq!(missing, Vec::<&String>::new(), "only in one of the two");
}

#[test]
fn the_version_script_lists_the_same() {
    assert_eq!(by_version_in_map(MAP), by_version(genuine()));
}

#[test]
fn the_genuine_libraries_installed_here_have_every_public_symbol_of_the_lists() {
    let directories = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    for (name, list) in GENUINE {
        let candidates = directories.map(|dir| Path::new(dir).join(name));
        let installed = candidates.iter().find(|path| path.exists());
        let installed = installed.unwrap_or_else(|| panic!("{name} is not installed"));
        let installed = symbols(installed);
        let public = list.lines().filter(|symbol| !symbol.contains("PRIVATE"));
        let missing: Vec<_> = public.filter(|&symbol| !installed.contains(symbol)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn the_shared_object_is_called_libibverbs_and_is_never_unloaded() {
    let dynamic = Command::new("readelf").arg("-d").arg(common::shared_object()).output().expect("readelf");
    let text = String::from_utf8(dynamic.stdout).unwrap();
    assert!(text.contains("soname: [libibverbs.so.1]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
    let versions = Command::new("readelf").arg("-V").arg(common::shared_object()).output().expect("readelf");
    let text = String::from_utf8(versions.stdout).unwrap();
    for version in by_version_in_map(MAP).keys() {
        assert!(text.contains(&format!("Name: {version}\n")), "{version}: {text}");
    }
}
