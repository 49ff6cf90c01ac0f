//! `softverbs devices`: what verbs programs find on this machine.

use std::process::ExitCode;

use anyhow::Context as _;
use host::{Context, Device, devices};
use nic::verbs::{GidType, PortState};
use serde::Serialize;
use wire::Gid;

/// Shows the RDMA devices that programs find, and the addresses by which peers reach them.
#[derive(Debug, clap::Args)]
pub struct DevicesArgs {
    /// Writes JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct DeviceReport {
    name: String,
    guid: String,
    link_layer: &'static str,
    state: &'static str,
    max_mtu: u32,
    gids: Vec<GidReport>,
    limits: LimitsReport,
}

#[derive(Debug, Serialize)]
struct GidReport {
    index: u8,
    gid: String,
    address: String,
    #[serde(rename = "type")]
    gid_type: &'static str,
    interface: String,
}

#[derive(Debug, Serialize)]
struct LimitsReport {
    queue_pairs: u32,
    requests_per_queue: u32,
    elements_per_request: u32,
    completion_queue_entries: u32,
    memory_regions: u32,
    message_bytes: u32,
    inline_bytes: u32,
    reads_and_atomics: u8,
}

impl DevicesArgs {
    /// Does it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let reports = devices()?.iter().map(report).collect::<anyhow::Result<Vec<_>>>()?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&reports)?);
        } else {
            reports.iter().for_each(print);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn report(device: &Device) -> anyhow::Result<DeviceReport> {
    let context =
        Context::open(device).with_context(|| format!("cannot open the device {}", device.name()))?;
    let interfaces = io::interfaces::interfaces().context("cannot list the network interfaces")?;
    let interface_name = |index: u32| {
        let found = interfaces.iter().find(|interface| interface.index == index);
        found.map_or_else(|| index.to_string(), |interface| interface.name.clone())
    };
    let gids = context.gids().into_iter().map(|(index, entry)| GidReport {
        index,
        gid: full_text(entry.gid),
        address: entry.gid.ip().to_string(),
        gid_type: match entry.gid_type {
            GidType::RoceV1 => "RoCE v1",
            GidType::RoceV2 => "RoCE v2",
        },
        interface: interface_name(entry.interface_index),
    });
    let port = context.port();
    let limits = context.limits();
    Ok(DeviceReport {
        name: device.name().to_owned(),
        guid: format!("{:016x}", device.guid()),
        link_layer: "Ethernet",
        state: match port.state {
            PortState::Active => "active",
            PortState::Down => "down",
        },
        max_mtu: port.max_mtu.bytes(),
        gids: gids.collect(),
        limits: LimitsReport {
            queue_pairs: limits.max_qp,
            requests_per_queue: limits.max_qp_wr,
            elements_per_request: limits.max_sge,
            completion_queue_entries: limits.max_cqe,
            memory_regions: limits.max_mr,
            message_bytes: limits.max_message_size,
            inline_bytes: limits.max_inline_data,
            reads_and_atomics: limits.max_qp_rd_atom,
        },
    })
}

/// A GID with all its digits, as the kernel writes it.
fn full_text(gid: Gid) -> String {
    gid.0.chunks(2).map(|word| format!("{:02x}{:02x}", word[0], word[1])).collect::<Vec<_>>().join(":")
}

fn print(device: &DeviceReport) {
    println!(
        "{}  guid {}  {}  port 1 {}  mtu {}",
        device.name, device.guid, device.link_layer, device.state, device.max_mtu
    );
    println!("  index  type     address                                   interface");
    for gid in &device.gids {
        println!("  {:>5}  {}  {:<40}  {}", gid.index, gid.gid_type, gid.address, gid.interface);
    }
}
