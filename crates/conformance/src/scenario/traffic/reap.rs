//! Completions, compared with what the model expects.

use nic::verbs::*;
use wire::Immediate;

use super::{
    Traffic,
    flow::{Flight, Kind, Turn},
    layout::{LOCAL, RECEIVE, SLOT, SLOTS},
};

impl Traffic<'_, '_> {
    /// Takes all completions of an end. True if there were any.
    pub(super) fn reap(&mut self, index: usize) -> bool {
        let (send_cq, recv_cq) = (self.pair.ends[index].send_cq, self.pair.ends[index].recv_cq);
        let mut any = false;
        while let Some(done) = self.pair.poll(index, send_cq) {
            self.on_sent(index, &done);
            any = true;
        }
        while let Some(done) = self.pair.poll(index, recv_cq) {
            self.on_received(index, &done);
            any = true;
        }
        any
    }

    /// A completion stands for its request and all before it that were not signalled.
    fn on_sent(&mut self, index: usize, done: &Completion) {
        loop {
            let flight = self.flows[index].flights.pop_front();
            let flight = flight.unwrap_or_else(|| panic!("end {index}: a completion of nothing: {done:?}"));
            self.flows[index].completed += 1;
            if flight.flags.signaled {
                assert_eq!(
                    (done.wr_id, done.status),
                    (flight.number, Status::Success),
                    "end {index}: {flight:?}"
                );
                assert_eq!(done.opcode, flight.kind.opcode(), "end {index}: {flight:?}");
                return self.on_done(index, &flight);
            }
            self.on_done(index, &flight);
        }
    }

    fn on_done(&mut self, index: usize, flight: &Flight) {
        let slot = LOCAL + flight.number % SLOTS * SLOT;
        if !flight.brings.is_empty() {
            let found = self.pair.load(index, slot, flight.brings.len());
            assert!(
                found == flight.brings,
                "end {index}, {} {:?}: brought other bytes",
                flight.number,
                flight.kind
            );
        }
        let Some(window) = &mut self.flows[index].window else { return };
        match flight.kind {
            Kind::Bind => window.turn = Turn::Bound { writes: (flight.number % 5) as u32 },
            Kind::Invalidate => window.turn = Turn::Unbound,
            _ => {}
        }
    }

    fn on_received(&mut self, index: usize, done: &Completion) {
        let flow = &mut self.flows[index];
        let number = flow.received;
        flow.received += 1;
        assert_eq!((done.wr_id, done.status), (number, Status::Success), "end {index}: a receive");
        let message = flow.expected.pop_front();
        let message = message.unwrap_or_else(|| panic!("end {index}: a receive of nothing: {done:?}"));
        let (opcode, immediate) = match message.kind {
            Kind::WriteImmediate => (CompletionOpcode::RecvWriteWithImmediate, Immediate::Data(message.word)),
            Kind::SendImmediate => (CompletionOpcode::Recv, Immediate::Data(message.word)),
            Kind::SendInvalidate => (CompletionOpcode::Recv, Immediate::Invalidate(message.word)),
            _ => (CompletionOpcode::Recv, Immediate::None),
        };
        let told = (done.opcode, done.immediate, done.byte_length);
        assert_eq!(told, (opcode, immediate, message.length), "end {index}, receive {number}");
        if let (Kind::SendInvalidate, Some(window)) = (message.kind, &mut flow.window) {
            window.turn = Turn::Unbound;
        }
        let slot = RECEIVE + number % SLOTS * SLOT;
        let found = self.pair.load(index, slot, message.bytes.len());
        assert!(found == message.bytes, "end {index}, receive {number}: other bytes than were sent");
    }
}
