//! `softverbs devices` and `softverbs service`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn softverbs(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softverbs"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn every_machine_has_a_device_with_a_loopback_address() {
    let output = softverbs(&["devices", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let devices: Value = serde_json::from_slice(&output.stdout).unwrap();
    let device = &devices[0];
    assert_eq!((&device["name"], &device["state"]), (&"softverbs0".into(), &"active".into()));
    let gids = device["gids"].as_array().unwrap();
    let loopback = gids.iter().find(|gid| gid["address"] == "127.0.0.1").unwrap();
    assert_eq!(loopback["interface"], "lo");
    assert_eq!(loopback["gid"], "0000:0000:0000:0000:0000:ffff:7f00:0001");
    assert_eq!(loopback["type"], "RoCE v2");

    let text = String::from_utf8(softverbs(&["devices"]).stdout).unwrap();
    assert!(text.starts_with("softverbs0  guid ") && text.contains("127.0.0.1"), "{text}");
}

#[test]
fn the_device_has_the_name_it_is_given() {
    let output = Command::new(env!("CARGO_BIN_EXE_softverbs"))
        .arg("devices")
        .env("SOFTVERBS_DEVICE_NAME", "mlx5_0")
        .output()
        .unwrap();
    assert!(output.stdout.starts_with(b"mlx5_0 "), "{output:?}");
    let output = Command::new(env!("CARGO_BIN_EXE_softverbs"))
        .arg("devices")
        .env("SOFTVERBS_DEVICE_NAME", "../x")
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("device name \"../x\""));
}

#[test]
fn a_second_service_says_that_there_is_one() {
    // The first is started by what needs it, and stays for a while.
    assert!(softverbs(&["devices"]).status.success());
    let output = softverbs(&["service"]);
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("runs already"));
    assert!(softverbs(&["service", "--on-demand"]).status.success());
}
