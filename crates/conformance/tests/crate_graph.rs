//! The architecture, enforced: which crate may use which, and what the protocol core may not do.

use std::{collections::BTreeMap, env, fs, process::Command};

use conformance::library::project_root;
use serde_json::Value;

/// What each crate may use of the workspace. `conformance` is free: nothing uses it.
const ALLOWED: [(&str, &[&str]); 6] = [
    ("softverbs-wire", &[]),
    ("softverbs-nic", &["softverbs-wire"]),
    ("softverbs-fabric", &["softverbs-nic", "softverbs-wire"]),
    ("softverbs-io", &[]),
    ("softverbs-host", &["softverbs-io", "softverbs-nic", "softverbs-wire"]),
    ("softverbs", &["softverbs-host", "softverbs-io", "softverbs-nic", "softverbs-wire"]),
];

const TESTS_ONLY: &str = "softverbs-conformance";

/// The crates that will run a thousand times over in a simulator: no operating system, no raw memory.
const SANS_IO: [&str; 2] = ["wire", "nic"];

/// The packages of the workspace and what they use of each other, in the program or its build script.
fn edges() -> BTreeMap<String, Vec<String>> {
    let cargo = env::var_os("CARGO").expect("cargo runs its tests with CARGO set");
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--locked", "--format-version", "1"])
        .current_dir(project_root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let edges = packages.map(|package| {
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let ours =
            dependencies.filter(|dependency| dependency["kind"] != "dev" && !dependency["path"].is_null());
        (text(&package["name"]), ours.map(|dependency| text(&dependency["name"])).collect())
    });
    edges.collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

#[test]
fn crates_use_only_what_lies_below() {
    for (package, used) in edges() {
        if package == TESTS_ONLY {
            continue;
        }
        let (_, allowed) = ALLOWED
            .iter()
            .find(|(name, _)| *name == package)
            .unwrap_or_else(|| panic!("{package} has no rule"));
        for dependency in used {
            assert!(allowed.contains(&dependency.as_str()), "{package} must not use {dependency}");
        }
    }
}

#[test]
fn every_rule_is_about_a_crate() {
    let edges = edges();
    for (package, _) in ALLOWED {
        assert!(edges.contains_key(package), "{package} is gone; so should its rule be");
    }
}

#[test]
fn the_protocol_core_is_sans_io() {
    for name in SANS_IO {
        let source = project_root().join("crates").join(name).join("src/lib.rs");
        let source = fs::read_to_string(&source).expect("a crate root");
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            assert!(source.lines().any(|line| line == attribute), "{name} must say {attribute}");
        }
        let lines: Vec<&str> = source.lines().collect();
        let std = lines.windows(2).find(|pair| pair[1].contains("extern crate std"));
        assert!(std.is_none_or(|pair| pair[0] == "#[cfg(test)]"), "{name} must do without std");
    }
}
