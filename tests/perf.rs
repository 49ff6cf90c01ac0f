//! `softverbs perf` and `softverbs demo`: they measure, verify, and say what they cannot do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn softverbs(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softverbs"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs of a few milliseconds.
fn perf(arguments: &[&str]) -> Vec<Value> {
    let short = ["perf", "--json", "--time", "0.01", "--runs", "1"];
    let output = softverbs(&[&short[..], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn everything_is_measured_on_every_transport_that_has_it() {
    let all = perf(&["-o", "send,write,read,cas,fadd", "-t", "rc,uc,ud,tcp,udp", "-s", "1,4096,5000"]);
    let count = |transport: &str, mode: &str| {
        all.iter().filter(|found| found["transport"] == transport && found["mode"] == mode).count()
    };
    // RC: three sizes of three operations, and two atomics.
    assert_eq!([count("rc", "latency"), count("rc", "bandwidth")], [11, 11]);
    assert_eq!([count("uc", "latency"), count("uc", "bandwidth")], [6, 6]);
    // Datagrams are not longer than the path MTU.
    assert_eq!([count("ud", "latency"), count("ud", "bandwidth")], [2, 2]);
    assert_eq!([count("tcp", "latency"), count("tcp", "bandwidth")], [3, 3]);
    assert_eq!([count("udp", "latency"), count("udp", "bandwidth")], [3, 0]);
    for found in &all {
        assert!(found["iterations"].as_u64().unwrap() > 0, "{found}");
        if found["mode"] == "latency" {
            let latency = &found["latency_us"];
            let times = ["min", "p50", "p99", "max"].map(|name| latency[name].as_f64().unwrap());
            assert!(times[0] > 0.0 && times.is_sorted(), "{found}");
        } else if found["transport"] == "rc" {
            assert_eq!(found["rate"]["delivered"], 1.0, "{found}");
        }
    }
}

#[test]
fn ratios_are_reported_beside_the_kernels_transports() {
    let all = perf(&["--compare", "-s", "64"]);
    assert_eq!(all.len(), 2);
    assert!(all[0]["to_tcp"].as_f64().unwrap() > 0.0 && all[0]["to_udp"].as_f64().unwrap() > 0.0);
    assert!(all[1]["to_tcp"].as_f64().unwrap() > 0.0 && all[1]["to_udp"].is_null());
}

#[test]
fn client_and_server_may_be_started_apart() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_softverbs"))
        .args(["perf", "--listen", "127.0.0.1:0", "--once"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let all = perf(&[address.trim(), "--passive", "-o", "write,read", "-m", "bandwidth", "-s", "64K"]);
    assert_eq!(all.len(), 2);
    assert!(server.wait().unwrap().success());
}

#[test]
fn without_json_there_is_a_table() {
    let output = softverbs(&["perf", "--time", "0.01", "--runs", "1", "-o", "send", "-s", "64"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains("p50 us") && lines[2].contains("Gbit/s"), "{text}");
    assert!(lines[1].starts_with("RC   send") && lines[3].contains("100.0%"), "{text}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_reason() {
    for (arguments, reason) in [
        (&["-t", "ud", "-o", "write"][..], "UD has nothing but sends"),
        (&["-t", "uc", "-o", "read"], "UC has neither reads nor atomics"),
        (&["-t", "ud", "-o", "send", "-s", "5000"], "datagrams are not longer than 4096 bytes"),
        (&["-s", "0"], "expected 1 to 1G bytes"),
        (&["--mtu", "1500"], "expected 256, 512, 1024, 2048 or 4096"),
        (&["--time", "-1"], "unexpected argument"),
        (&["--time", "0"], "expected more than 0"),
        (&["127.0.0.1:9"], "cannot connect to 127.0.0.1:9"),
        (&["no such host"], "is no address"),
        (&["--listen", "192.0.2.77:0"], "cannot listen on 192.0.2.77:0"),
    ] {
        let output = softverbs(&[&["perf"], arguments].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(reason), "{arguments:?}: {text}");
    }
}

#[test]
fn the_demonstration_measures_all_that_it_shows() {
    let output = softverbs(&["demo", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["device"], "softverbs0");
    let measurements = report["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), 12 + 5 + 12);
    assert!(measurements.iter().all(|found| found["runs"] == 3));
}
