//! What the inquiring programs of rdma-core say about our device.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use conformance::{
    Family, Library, Program, Scene,
    scene::{JUMBO, PLAIN},
    suite::{Shared, Suite},
};

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    let mut check = |name: &str, check: fn(&Arc<Library>) -> Result<()>| {
        let library = Arc::clone(&library);
        suite.check(name, move || check(&library.obtain()?));
    };
    check("ibv_devices lists a device", devices_are_listed);
    check("ibv_devinfo shows an active Ethernet port", port_is_active);
    check("ibv_devinfo shows the MTU that fits the interface", mtu_follows_interface);
    check("ibv_devinfo shows a RoCE v2 GID for each address", gids_are_shown);
    check("an unprivileged user sees the same", unprivileged_sees_the_same);
    check("softverbs run puts the library in front", run_puts_library_in_front);
    suite.run()
}

/// What `program` prints on our end of two hosts joined by an Ethernet of this MTU.
fn ask(library: &Arc<Library>, mtu: u32, program: Program) -> Result<String> {
    let scene = Scene::two_hosts(library, mtu)?;
    scene.server.place(program).output()
}

fn devices_are_listed(library: &Arc<Library>) -> Result<()> {
    let text = ask(library, JUMBO, Program::new("ibv_devices"))?;
    // A heading of two lines, then name and node GUID.
    let (name, guid) = text
        .lines()
        .nth(2)
        .and_then(|line| line.trim().split_once(char::is_whitespace))
        .context(text.clone())?;
    let guid = u64::from_str_radix(guid.trim(), 16).context(text.clone())?;
    ensure!(!name.is_empty() && guid != 0, "{text}");
    Ok(())
}

fn port_is_active(library: &Arc<Library>) -> Result<()> {
    let text = ask(library, JUMBO, Program::new("ibv_devinfo").arg("-v"))?;
    for (name, value) in [
        ("transport:", "InfiniBand (0)"),
        ("state:", "PORT_ACTIVE (4)"),
        ("phys_state:", "LINK_UP (5)"),
        ("link_layer:", "Ethernet"),
        ("phys_port_cnt:", "1"),
    ] {
        ensure!(field(&text, name)? == value, "{name} is not {value}:\n{text}");
    }
    for name in ["node_guid:", "sys_image_guid:"] {
        ensure!(field(&text, name)? != "0000:0000:0000:0000", "no {name}\n{text}");
    }
    Ok(())
}

fn mtu_follows_interface(library: &Arc<Library>) -> Result<()> {
    for (mtu, active) in [(JUMBO, "4096 (5)"), (PLAIN, "1024 (3)")] {
        let text = ask(library, mtu, Program::new("ibv_devinfo"))?;
        ensure!(field(&text, "active_mtu:")? == active, "not {active} on MTU {mtu}:\n{text}");
        ensure!(field(&text, "max_mtu:")? == "4096 (5)", "{text}");
    }
    Ok(())
}

fn gids_are_shown(library: &Arc<Library>) -> Result<()> {
    let scene = Scene::two_hosts(library, JUMBO)?;
    for family in Family::ALL {
        scene.server.gid_index(family)?;
    }
    Ok(())
}

fn unprivileged_sees_the_same(library: &Arc<Library>) -> Result<()> {
    let scene = Scene::two_hosts(library, JUMBO)?;
    let devinfo = || Program::new("ibv_devinfo").arg("-v");
    let root = scene.server.place(devinfo()).output()?;
    let nobody = scene.server.unprivileged().place(devinfo()).output()?;
    ensure!(root == nobody, "root:\n{root}\nnobody:\n{nobody}");
    Ok(())
}

fn run_puts_library_in_front(library: &Arc<Library>) -> Result<()> {
    let scene = Scene::two_hosts(library, JUMBO)?;
    let node = scene.server.run_with("--device-name=named0");
    let text = node.place(Program::new("ibv_devinfo")).output()?;
    ensure!(field(&text, "hca_id:")? == "named0", "{text}");
    ensure!(field(&text, "link_layer:")? == "Ethernet", "{text}");
    Ok(())
}

/// The value after `name` on a line of its own.
fn field<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    let mut lines = text.lines().map(str::trim);
    lines
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
        .with_context(|| format!("no {name} in:\n{text}"))
}
