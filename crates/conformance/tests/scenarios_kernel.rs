//! Every scenario between the kernel's rxe and our library, with either of them at either end.
//!
//! Both stacks are in one emulated host, each behind its own `libibverbs.so.1`, and reach each other over a virtual
//! Ethernet: rxe in the host's network, ours in another, because both want the RoCE port. With rxe at both ends, which is
//! played when asked for, a scenario that fails tells that the scenario expects too much.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use conformance::{
    Library, Namespace, PeerVm, Program,
    peer_vm::{Machine, Stack},
    playbill::{self, Difference, Outcomes, Playbill},
    suite::{Shared, Suite},
};

/// What the rxe of Linux 6.1 has not got.
const DRAIN: &str = "rxe loses the event of a drained queue, or what was posted meanwhile";
const OWN_KEY: &str = "rxe sends a queue key with the high bit set as it is";
const IDLE_FENCE: &str = "rxe may forget a fenced request that has nothing to wait for";
const EVENTS: &str = "rxe raises no asynchronous event about a queue pair's responder";
const GROUPS: &str = "rxe joins no IP multicast group";

/// Where it and its user-space provider are wrong as a requester.
const POSTED_MISALIGNED: Difference =
    differs("misaligned_atomic", "rxe refuses to post it instead of asking the responder");
const LOCAL_KEY: Difference =
    differs("local_violations", "rxe takes a wrong local key for a fault of the queue pair");
const DATAGRAM_KEY: Difference =
    differs("datagram_failure", "rxe takes a wrong local key for a fault of the queue pair");
const NO_LATE_FLUSH: Difference =
    differs("flush_of_what_is_posted_later", "rxe does not look at receives that are posted in ERROR");
const PARTITIONS: Difference = differs("wrong_attributes", "rxe takes any index of a partition key");
const LATE_REFUSAL: Difference =
    differs("requests_in_the_wrong_kind_of_queue_pair", "rxe finds out when it sends, not when it is posted");
const LONG_DATAGRAM: Difference =
    differs("datagram_too_long", "rxe finds out when it sends, not when it is posted");

/// Where it is wrong as a responder.
const INVALIDATED: Difference = differs(
    "window_invalidated_by_peer",
    "rxe sets the kernel's flag in the completion, not that of verbs.h",
);
const WINDOW_BOUNDS: Difference =
    differs("window_rights", "rxe checks accesses through a window against the bounds of the region");
const RECEIVE_TAKEN: Difference =
    differs("remote_violations", "rxe completes a receive with the requester's error");
const SHORT_RECEIVE: Difference =
    differs("receive_violations", "rxe calls a receive that is too short an operational error");

const fn differs(scenario: &'static str, reason: &'static str) -> Difference {
    Difference { scenario, reason }
}

const RXE_TO_OURS: Playbill = Playbill {
    arm: "rxe to ours",
    skips: &[DRAIN, OWN_KEY, IDLE_FENCE],
    differences: &[
        POSTED_MISALIGNED,
        LOCAL_KEY,
        DATAGRAM_KEY,
        NO_LATE_FLUSH,
        PARTITIONS,
        LATE_REFUSAL,
        LONG_DATAGRAM,
    ],
    is_long: true,
};

const OURS_TO_RXE: Playbill = Playbill {
    arm: "ours to rxe",
    skips: &[IDLE_FENCE, EVENTS, GROUPS],
    differences: &[INVALIDATED, WINDOW_BOUNDS, RECEIVE_TAKEN, SHORT_RECEIVE],
    is_long: true,
};

/// A scenario that fails here for a reason of its own expects too much.
const RXE_TO_RXE: Playbill = Playbill {
    arm: "rxe to rxe",
    skips: &[DRAIN, OWN_KEY, IDLE_FENCE, EVENTS, GROUPS],
    differences: &[
        POSTED_MISALIGNED,
        LOCAL_KEY,
        DATAGRAM_KEY,
        NO_LATE_FLUSH,
        PARTITIONS,
        LATE_REFUSAL,
        LONG_DATAGRAM,
        INVALIDATED,
        WINDOW_BOUNDS,
        RECEIVE_TAKEN,
        SHORT_RECEIVE,
    ],
    is_long: true,
};

fn main() {
    let mut suite = Suite::new();
    let host = Shared::new(Host::boot);
    for (playbill, ends) in [
        (RXE_TO_OURS, [End::Rxe, End::Ours]),
        (OURS_TO_RXE, [End::Ours, End::Rxe]),
        (RXE_TO_RXE, [End::Rxe, End::Rxe]),
    ] {
        let host = Arc::clone(&host);
        playbill.check(&mut suite, move || host.obtain()?.play(ends));
    }
    // The emulated host has little time, which is what local ACK timeouts are measured against.
    suite.one_at_a_time().run()
}

/// Which stack an end is on.
#[derive(Clone, Copy)]
enum End {
    Rxe,
    Ours,
}

/// An emulated host with both stacks.
struct Host {
    machine: PeerVm,
    /// What the machine is reached through.
    _network: Namespace,
    library: Library,
}

/// Makes the second network, joins it with the host's, and puts an rxe at the near end. One line, for it passes shells.
const JOIN: &str = "set -e; \
    ip link add veth0 mtu 9000 type veth peer name veth1 mtu 9000; \
    ip addr add 10.78.0.1/24 dev veth0; ip link set veth0 up; \
    rdma link add rxe1 type rxe netdev veth0; \
    setsid unshare -n sleep infinity </dev/null >/dev/null 2>&1 & other=$!; echo $other >/dev/shm/other; \
    while [ $(readlink /proc/$other/ns/net) = $(readlink /proc/self/ns/net) ]; do sleep 0.1; done; \
    ip link set veth1 netns $other; \
    enter() { nsenter -t $other -n \"$@\"; }; \
    enter ip link set lo up; enter ip addr add 10.78.0.2/24 dev veth1; enter ip link set veth1 up";

/// What all scenarios on an arm may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Where Debian has the genuine library.
const GENUINE: &str = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";

impl Host {
    fn boot() -> Result<Self> {
        let library = Library::build()?;
        let network = PeerVm::network()?;
        let machine = PeerVm::boot(&network, 2, Machine { processors: 2, stack: Stack::Kernel })?;
        machine.place(Program::new("bash").arg("-c").arg(JOIN)).output()?;
        Ok(Self { machine, _network: network, library })
    }

    fn play(&self, ends: [End; 2]) -> Result<Outcomes> {
        let ours = self.library.directory().join("libibverbs.so.1").display().to_string();
        let mut command = format!(
            "exec nsenter -t $(cat /dev/shm/other) -n env LD_PRELOAD={GENUINE} {} play --arm abi --emulated",
            env!("CARGO_BIN_EXE_scenarios")
        );
        for end in ends {
            command += &match end {
                End::Rxe => format!(" --library {GENUINE} --device rxe1"),
                End::Ours => format!(" --library {ours} --device softverbs0"),
            };
        }
        let program = Program::new("bash").arg("-c").arg(command).limit(LIMIT);
        playbill::outcomes(self.machine.place(program))
    }
}
