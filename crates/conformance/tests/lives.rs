//! Programs that share an address, die, come back, or find the RoCE port taken.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use conformance::{
    Dialogue, Family, Library, Namespace, Node, PeerVm, Program, Scene,
    dialogue::Kind,
    peer_vm::Machine,
    perftest,
    pingpong::Case,
    suite::{Shared, Suite},
};

/// The UDP port of RoCE v2.
const ROCE_PORT: &str = "4791";

/// Within this time a retry count of 7 at a timeout of 67 ms is used up, and a host without RDMA programs is as before.
const SOON: Duration = Duration::from_secs(30);

fn main() {
    let mut suite = Suite::new();
    let library = Shared::new(Library::build);
    let mut check = |name: &str, check: fn(&Arc<Library>) -> Result<()>| {
        let library = Arc::clone(&library);
        suite.check(name, move || check(&library.obtain()?));
    };
    check("users share an address", users_share_an_address);
    check("the peer of a killed program sees retries exceeded", killed_peer_is_noticed);
    check("a killed program leaves nothing in the way of the next", killed_program_leaves_nothing);
    check("nothing runs on when the last program ended", nothing_runs_on);
    check("a program that does not call in is still served", sleeping_program_is_served);
    check("a port taken by another program is reported", port_taken_by_program);
    check("a port taken by the kernel is reported", port_taken_by_kernel);
    suite.run()
}

/// A ping-pong that does not end by itself.
fn endless() -> Dialogue {
    Dialogue::new(Kind::Pingpong, "ibv_rc_pingpong", "-n 100000000").limit(Duration::from_secs(120))
}

fn short() -> Result<Case> {
    Case::reliable().into_iter().next().context("a case")
}

fn users_share_an_address(library: &Arc<Library>) -> Result<()> {
    let scene = Scene::one_host(library)?;
    let by_nobody = scene.unprivileged("unprivileged");
    let mut mixed = scene.clone();
    mixed.server = by_nobody.server.clone();
    let pairs = [&scene, &by_nobody, &mixed, &scene, &by_nobody]
        .map(|scene| short()?.dialogue().start(scene, Family::V4));
    for pair in pairs {
        short()?.judge(&pair?.finish()?)?;
    }
    Ok(())
}

fn killed_peer_is_noticed(library: &Arc<Library>) -> Result<()> {
    let scene = Scene::one_host(library)?;
    let mut pair = endless().start(&scene, Family::V4)?;
    let_run(&mut pair.client)?;
    pair.server.end();
    let killed = Instant::now();
    let client = pair.client.finish()?;
    ensure!(killed.elapsed() < SOON, "only after {:?}:\n{client}", killed.elapsed());
    let status = "transport retry counter exceeded";
    ensure!(!client.status.success() && client.to_string().contains(status), "not {status}:\n{client}");
    Ok(())
}

fn killed_program_leaves_nothing(library: &Arc<Library>) -> Result<()> {
    let scene = Scene::one_host(library)?;
    for _ in 0..10 {
        let mut pair = endless().start(&scene, Family::V4)?;
        let_run(&mut pair.client)?;
        pair.server.end();
        pair.client.end();
    }
    short()?.play(&scene, Family::V4).map(drop)
}

fn nothing_runs_on(library: &Arc<Library>) -> Result<()> {
    let namespace = Arc::new(Namespace::new()?);
    let scene = Scene::one_host_in(&namespace, library);
    short()?.play(&scene, Family::V4)?;
    let ended = Instant::now();
    while !namespace.processes()?.is_empty() {
        ensure!(ended.elapsed() < SOON, "these run on: {:?}", namespace.processes()?);
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// The server of `ib_write_bw` and `ib_read_bw` waits for its client on a TCP socket; its memory is used meanwhile.
fn sleeping_program_is_served(library: &Arc<Library>) -> Result<()> {
    let scene = Scene::one_host(library)?;
    for program in ["ib_write_bw", "ib_read_bw"] {
        let dialogue = Dialogue::new(Kind::Perftest, program, "-c RC -s 65536 -n 2000");
        let outcome = dialogue.run(&scene, Family::V4)?;
        ensure!(!perftest::reports(&outcome.client.stdout)?.is_empty(), "{}", outcome.client);
    }
    Ok(())
}

fn port_taken_by_program(library: &Arc<Library>) -> Result<()> {
    let namespace = Arc::new(Namespace::new()?);
    let script = format!(
        "import socket, time; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', {ROCE_PORT})); \
         print('bound', flush=True); time.sleep(60)"
    );
    let mut holder = namespace.place(Program::new("/usr/bin/python3").arg("-c").arg(script)).start()?;
    holder.wait_until("it had the port", |holder| Ok(holder.stdout_so_far().contains("bound")))?;
    let node = Node::ours(&namespace, library, "127.0.0.1", "::1");
    says_that_the_port_is_taken(&node)
}

fn port_taken_by_kernel(library: &Arc<Library>) -> Result<()> {
    let network = PeerVm::network()?;
    let machine = Arc::new(PeerVm::boot(&network, 2, Machine::default())?);
    says_that_the_port_is_taken(&Node::ours_on(&machine, library))
}

/// A program fails, and what it prints names the port.
fn says_that_the_port_is_taken(node: &Node) -> Result<()> {
    let finished = node.place(Program::new("ibv_rc_pingpong").args("-g 0").limit(SOON)).run()?;
    ensure!(!finished.status.success(), "it ran all the same:\n{finished}");
    ensure!(finished.to_string().contains(ROCE_PORT), "nothing about port {ROCE_PORT}:\n{finished}");
    Ok(())
}

/// Lets a pair of programs connect and get going.
fn let_run(client: &mut conformance::Running) -> Result<()> {
    client.wait_until("it was connected", |client| Ok(client.stdout_so_far().contains("remote address")))?;
    thread::sleep(Duration::from_millis(300));
    ensure!(client.is_running()?, "it ended early");
    Ok(())
}
