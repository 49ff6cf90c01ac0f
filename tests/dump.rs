//! `softverbs dump` on captures of the Linux kernel's rxe, in every format, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use serde_json::Value;
use tempfile::TempDir;

const ETHERNET_HEADER: usize = 14;
const PCAP_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/wire/tests/golden").join(name)
}

fn dump(arguments: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_softverbs"))
        .arg("dump")
        .args(arguments)
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The objects of `--json`: packets and errors, then the summary.
fn json(file: &Path) -> (Vec<Value>, Value) {
    let output = dump(&["--json"], file);
    let mut items: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = items.pop().unwrap();
    assert_eq!(summary["type"], "summary");
    assert_eq!(output.status.success(), is_clean(&summary), "{summary}");
    (items, summary)
}

fn is_clean(summary: &Value) -> bool {
    ["icrc_bad", "malformed", "damaged_records"].iter().all(|count| summary[count] == 0)
}

/// A few packets of the captures, with their times.
fn packets(count: usize) -> Vec<(Duration, Vec<u8>)> {
    let file = fs::File::open(golden("rxe-cm.pcap")).unwrap();
    let mut reader = PcapReader::new(file).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet()
        && packets.len() < count
    {
        let packet = packet.unwrap();
        packets.push((packet.timestamp, packet.data.into_owned()));
    }
    packets
}

fn write_pcap(path: &Path, header: PcapHeader, packets: &[(Duration, Vec<u8>)]) {
    let mut writer = PcapWriter::with_header(fs::File::create(path).unwrap(), header).unwrap();
    for (time, data) in packets {
        let packet = PcapPacket::new(*time, data.len() as u32, data);
        writer.write_packet(&packet).unwrap();
    }
}

#[test]
fn every_packet_of_the_kernel_is_told_and_its_icrc_is_right() {
    for (name, packets) in [("rxe-verbs.pcap", 1102), ("rxe-cm.pcap", 4052)] {
        let output = dump(&[], &golden(name));
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        assert_eq!(text.lines().filter(|line| line.contains(" icrc ok ")).count(), packets);
        assert!(!text.contains("BAD"));
        assert!(text.contains(&format!("{packets} packets in ")));

        let (items, summary) = json(&golden(name));
        assert_eq!(items.len(), packets);
        assert_eq!(summary["icrc_ok"], packets);
    }
}

#[test]
fn lines_tell_what_the_packets_do() {
    let verbs = stdout(&dump(&[], &golden("rxe-verbs.pcap")));
    let cm = stdout(&dump(&[], &golden("rxe-cm.pcap")));
    for (text, expected) in [
        (&verbs, "RC SEND First psn 3039442 qp 0x11 payload 1024 icrc ok length 1082"),
        (&verbs, "RC Acknowledge psn 14257011 qp 0x20 ACK msn 6 icrc ok length 62"),
        (&cm, "[CM Send REQ tid 0x218b97600 local 0x76b918 service 0x1061c06]"),
        (&cm, "[CM Send REJ tid 0x218b97612 local 0x0 remote 0x1276b918 reason 8]"),
        (&cm, "RNR NAK msn 0 retry after 0.64 ms"),
    ] {
        assert!(text.contains(expected), "no {expected:?}");
    }
    let requests: Vec<&str> = verbs.lines().filter(|line| line.contains("RDMA READ Request psn")).collect();
    assert!(requests.iter().all(|line| line.contains(" va 0x") && line.contains(" rkey 0x")));
    let atomics: Vec<&str> = verbs.lines().filter(|line| line.contains("FetchAdd psn")).collect();
    assert!(atomics.len() == 6 && atomics.iter().all(|line| line.contains(" swap/add 0x")));
}

#[test]
fn json_has_the_fields() {
    let (items, summary) = json(&golden("rxe-cm.pcap"));
    let request = &items[0];
    assert_eq!(request["kind"], "roce");
    assert_eq!(request["opcode"], "UD SEND Only");
    assert_eq!(request["qkey"], "0x80010000");
    assert_eq!(request["mad"]["attribute"], "REQ");
    assert_eq!(request["mad"]["service_id"], "0x1061c06");
    assert_eq!(request["icrc"], "ok");
    assert_eq!(request["offset"], PCAP_HEADER);
    assert_eq!(summary["naks"]["RNR NAK"], 1923);
    assert_eq!(summary["opcodes"]["RC RDMA READ Request"], 8);
}

#[test]
fn every_format_tells_the_same() {
    let directory = TempDir::new().unwrap();
    let packets = packets(20);
    let expected: Vec<Value> = json(&golden("rxe-cm.pcap")).0.into_iter().take(20).map(timed).collect();
    for endianness in [Endianness::Little, Endianness::Big] {
        for ts_resolution in [TsResolution::MicroSecond, TsResolution::NanoSecond] {
            let path = directory.path().join("x.pcap");
            let header = PcapHeader { endianness, ts_resolution, snaplen: 65535, ..PcapHeader::default() };
            write_pcap(&path, header, &packets);
            let found: Vec<Value> = json(&path).0.into_iter().map(timed).collect();
            assert_eq!(found, expected);
        }
        // 10^-9, 10^-6 and 2^-10 seconds.
        for (resolution, per_second) in [(9, 1_000_000_000), (6, 1_000_000), (0x8A, 1024)] {
            let path = directory.path().join("x.pcapng");
            write_pcapng(&path, endianness, resolution, per_second, &packets);
            let found: Vec<Value> = json(&path).0.into_iter().map(timed).collect();
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                let times = [found, expected].map(|item| item["time_ns"].as_u64().unwrap());
                assert!(times[0].abs_diff(times[1]) <= 1_000_000_000 / per_second);
                assert_eq!(found["psn"], expected["psn"]);
                assert_eq!(found["icrc"], "ok");
            }
        }
    }
}

/// A packet without what depends on the format of the file.
fn timed(mut item: Value) -> Value {
    item.as_object_mut().unwrap().remove("offset");
    item
}

fn write_pcapng(
    path: &Path,
    endianness: Endianness,
    resolution: u8,
    per_second: u64,
    packets: &[(Duration, Vec<u8>)],
) {
    let mut writer = PcapNgWriter::with_endianness(fs::File::create(path).unwrap(), endianness).unwrap();
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: vec![InterfaceDescriptionOption::IfTsResol(resolution)],
    };
    writer.write_block(&interface.into_block()).unwrap();
    for (time, data) in packets {
        let units = time.as_nanos() * u128::from(per_second) / 1_000_000_000;
        let packet = EnhancedPacketBlock {
            interface_id: 0,
            // The library writes the count of units that it calls nanoseconds.
            timestamp: Duration::from_nanos(units as u64),
            original_len: data.len() as u32,
            data: data.into(),
            options: Vec::new(),
        };
        writer.write_block(&packet.into_block()).unwrap();
    }
}

#[test]
fn simple_packets_have_no_time_and_lose_their_padding() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("simple.pcapng");
    let mut writer =
        PcapNgWriter::with_endianness(fs::File::create(&path).unwrap(), Endianness::Little).unwrap();
    writer.write_block(&InterfaceDescriptionBlock::new(DataLink::ETHERNET, 65535).into_block()).unwrap();
    for (_, data) in packets(4) {
        let packet = SimplePacketBlock { original_len: data.len() as u32, data: data.into() };
        writer.write_block(&packet.into_block()).unwrap();
    }
    let (items, summary) = json(&path);
    assert_eq!(summary["icrc_ok"], 4);
    assert!(items.iter().all(|item| item["time_ns"].is_null() && item["missing"].is_null()));
    assert!(stdout(&dump(&[], &path)).starts_with("- 10.77.0.3 > "));
}

#[test]
fn other_link_layers_are_understood() {
    let directory = TempDir::new().unwrap();
    for (link, header) in [
        (DataLink::RAW, vec![]),
        (DataLink::LINUX_SLL, [vec![0; 14], vec![8, 0]].concat()),
        (DataLink::LINUX_SLL2, [vec![8, 0], vec![0; 18]].concat()),
        (DataLink::NULL, vec![2, 0, 0, 0]),
    ] {
        let carried = |(time, data): (Duration, Vec<u8>)| {
            (time, [header.clone(), data[ETHERNET_HEADER..].to_vec()].concat())
        };
        let packets: Vec<_> = packets(5).into_iter().map(carried).collect();
        let path = directory.path().join("link.pcap");
        write_pcap(&path, PcapHeader { datalink: link, ..PcapHeader::default() }, &packets);
        assert_eq!(json(&path).1["icrc_ok"], 5, "{link:?}");
    }
    let path = directory.path().join("unknown.pcap");
    write_pcap(&path, PcapHeader { datalink: DataLink::IEEE802_11, ..PcapHeader::default() }, &packets(5));
    let (items, summary) = json(&path);
    assert_eq!(summary["other"], 5);
    assert_eq!(items[0]["what"], "link type 105");
}

#[test]
fn a_wrong_icrc_is_told_and_fails() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("bad.pcap");
    let mut packets = packets(3);
    *packets[1].1.last_mut().unwrap() ^= 1;
    write_pcap(&path, PcapHeader::default(), &packets);
    let output = dump(&[], &path);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let bad: Vec<usize> =
        text.lines().enumerate().filter(|(_, line)| line.contains("icrc BAD")).map(|(at, _)| at).collect();
    assert_eq!(bad, [1]);
    assert!(text.contains("ICRC 2 ok, 1 bad"));
}

#[test]
fn packets_cut_by_the_capture_show_their_headers() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("cut.pcap");
    let file = fs::File::create(&path).unwrap();
    let mut writer =
        PcapWriter::with_header(file, PcapHeader { snaplen: 65535, ..PcapHeader::default() }).unwrap();
    for (time, data) in packets(3) {
        writer.write_packet(&PcapPacket::new(time, data.len() as u32, &data[..96])).unwrap();
    }
    let (_, data) = &packets(1)[0];
    writer.write_packet(&PcapPacket::new(Duration::ZERO, data.len() as u32, &data[..48])).unwrap();
    drop(writer);

    let (items, summary) = json(&path);
    assert_eq!(summary["icrc_missing"], 3);
    assert_eq!(items[0]["opcode"], "UD SEND Only");
    assert_eq!(items[0]["icrc"], "missing");
    assert_eq!(items[0]["missing"], 322 - 96);
    assert_eq!(items[3]["kind"], "malformed");
    assert_eq!(summary["malformed"], 1);
}

#[test]
fn what_is_no_capture_is_refused_with_a_reason() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x");
    for contents in [&b""[..], b"abc", b"#!/bin/sh\necho this is a script and no capture\n", &[0; 100]] {
        fs::write(&path, contents).unwrap();
        let output = dump(&[], &path);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("at offset 0: neither a pcap nor a pcapng file"), "{output:?}");
    }
    let output = dump(&[], &directory.path().join("missing"));
    assert!(stderr(&output).contains("cannot open") && stderr(&output).contains("No such file"));
}

#[test]
fn a_file_that_ends_early_is_read_up_to_there() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("short.pcap");
    let whole = fs::read(golden("rxe-cm.pcap")).unwrap();
    let second = PCAP_HEADER + RECORD_HEADER + 322;
    for (length, needed) in [(second + 7, 12), (second + 14, RECORD_HEADER + 322), (second + 100, 338)] {
        fs::write(&path, &whole[..length]).unwrap();
        let (items, summary) = json(&path);
        assert_eq!((summary["packets"].as_u64(), summary["damaged_records"].as_u64()), (Some(1), Some(1)));
        assert_eq!(items[1]["offset"], second);
        let expected =
            format!("the file ends early: {needed} bytes are announced here, {} are there", length - second);
        assert_eq!(items[1]["error"], expected.as_str());
    }
    let output = dump(&[], &path);
    assert!(stderr(&output).contains(&format!("at offset {second}: the file ends early")));
}

#[test]
fn impossible_lengths_and_unknown_interfaces_are_told_with_their_place() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x.pcap");
    let mut bytes = fs::read(golden("rxe-cm.pcap")).unwrap();
    let second = PCAP_HEADER + RECORD_HEADER + 322;
    bytes[second + 8..second + 12].copy_from_slice(&0xFFFF_FFF0u32.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let (items, _) = json(&path);
    assert_eq!(items[1]["error"], "a record of 4294967296 bytes cannot be");

    // The second packet of a pcapng file names another interface; the others are still read.
    write_pcapng(&path, Endianness::Little, 6, 1_000_000, &packets(3));
    let mut bytes = fs::read(&path).unwrap();
    let block = bytes.windows(4).rposition(|word| word == 6u32.to_le_bytes()).unwrap();
    let length = u32::from_le_bytes(bytes[block + 4..block + 8].try_into().unwrap()) as usize;
    bytes[block - length + 8] = 9;
    fs::write(&path, &bytes).unwrap();
    let (items, summary) = json(&path);
    assert_eq!((summary["icrc_ok"].as_u64(), summary["damaged_records"].as_u64()), (Some(2), Some(1)));
    assert_eq!(items[1]["error"], "a packet of interface 9, which was not described");
    assert_eq!(items[1]["offset"], block - length);
}

#[test]
fn standard_input_and_a_reader_that_stops_are_fine() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_softverbs"))
        .args(["dump", "-"])
        .stdin(fs::File::open(golden("rxe-cm.pcap")).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
