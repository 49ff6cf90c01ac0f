//! The data path: posting, packets and time.

use wire::{Headers, Kind, Opcode, Qpn, Service};

use crate::memory::{Memory, Payload};
use crate::nic::Nic;
use crate::packet::{Arrival, Route, Transmit};
use crate::qp::{Destination, Environment, QpTable};
use crate::schedule::Schedule;
use crate::time::Instant;
use crate::verbs::*;

impl<M: Memory> Nic<M> {
    /// Posts a send request.
    pub fn post_send(&mut self, now: Instant, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), PostError> {
        let destination = self.destination(qpn, request)?;
        let (qps, mut env, schedule) = self.split(now);
        let qp = qps.get_mut(qpn).ok_or(PostError::UnknownHandle)?;
        qp.post_send(&mut env, request, destination)?;
        schedule.note(qp);
        Ok(())
    }

    /// How many more send requests a queue pair takes, for who wants to post all of a list or nothing.
    pub fn send_room(&self, qpn: Qpn) -> Option<usize> {
        Some(self.qps.get(qpn)?.send_room())
    }

    /// Posts a receive request.
    pub fn post_recv(&mut self, now: Instant, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let (qps, mut env, _) = self.split(now);
        qps.get_mut(qpn).ok_or(PostError::UnknownHandle)?.post_receive(&mut env, request)
    }

    /// What `modify_qp` does beside setting attributes: they are those asked for already, and its state
    /// is the new one, which is not RESET.
    pub(crate) fn on_modified(&mut self, now: Instant, qpn: Qpn, from: QpState) {
        let (qps, mut env, schedule) = self.split(now);
        if let Some(qp) = qps.get_mut(qpn) {
            qp.on_modified(&mut env, from);
            schedule.note(qp);
        }
    }

    /// Takes one packet off the wire. `payload` is what follows the headers, pad included, ICRC not.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        headers: &Headers,
        payload: Payload<'_>,
    ) {
        let Some(payload) = without_pad(headers, payload) else {
            self.counters.dropped_malformed += 1;
            return;
        };
        if headers.bth.dest_qp == Qpn::MULTICAST {
            return self.handle_multicast(now, arrival, headers, payload);
        }
        let (qps, mut env, schedule) = self.split(now);
        let Some(qp) = qps.get_mut(headers.bth.dest_qp) else {
            env.counters.dropped_unknown_qp += 1;
            return;
        };
        if headers.bth.opcode == Opcode::CNP {
            qp.handle_notification(&mut env, arrival);
        } else {
            qp.handle_packet(&mut env, arrival, headers, payload);
        }
        schedule.note(qp);
    }

    /// The next run of at most `max_packets` packets to put on the wire.
    ///
    /// # Panics
    /// If `max_packets` is zero.
    pub fn poll_transmit(&mut self, now: Instant, max_packets: usize) -> Option<Transmit> {
        assert!(max_packets > 0, "a run has a packet");
        let max_packets = u32::try_from(max_packets).unwrap_or(u32::MAX);
        let (qps, mut env, schedule) = self.split(now);
        // Every turn takes a queue pair off the lists, and only one that has sent goes back.
        while let Some((qpn, is_urgent)) = schedule.next_ready() {
            let Some(qp) = qps.get_mut(qpn) else { continue };
            if is_urgent {
                qp.scheduled.is_urgent = false;
            } else {
                qp.scheduled.is_ready = false;
            }
            if is_urgent && !qp.is_urgent() {
                continue;
            }
            let Some(transmit) = qp.poll_transmit(&mut env, max_packets) else {
                schedule.note_timeout(qp);
                continue;
            };
            schedule.note(qp);
            self.counters.sent_packets += transmit.packets() as u64;
            self.counters.sent_bytes += u64::from(transmit.payload_length);
            return Some(transmit);
        }
        None
    }

    /// When [`Self::handle_timeout`] wants to be called; that may turn out to be too early.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.schedule.next_wakeup()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let (qps, mut env, schedule) = self.split(now);
        while let Some((time, qpn)) = schedule.pop_wakeup(now) {
            let Some(qp) = qps.get_mut(qpn) else { continue };
            if qp.scheduled.wakeup != Some(time) {
                continue;
            }
            qp.scheduled.wakeup = None;
            qp.handle_timeout(&mut env);
            schedule.note(qp);
        }
    }

    /// Hands a multicast datagram to every member of its group (IBTA 10.5.2).
    fn handle_multicast(&mut self, now: Instant, arrival: &Arrival, headers: &Headers, payload: Payload<'_>) {
        let Opcode { service, .. } = headers.bth.opcode;
        if service != Service::Ud || !arrival.destination.is_multicast() {
            self.counters.dropped_malformed += 1;
            return;
        }
        let mut member = 0;
        while let Some(&qpn) = self.groups.members(arrival.destination).get(member) {
            member += 1;
            let (qps, mut env, schedule) = self.split(now);
            if let Some(qp) = qps.get_mut(qpn) {
                qp.handle_packet(&mut env, arrival, headers, payload);
                schedule.note(qp);
            }
        }
        if member == 0 {
            self.counters.dropped_unknown_qp += 1;
        }
    }

    /// The destination of a datagram, if the request names one.
    fn destination(&self, qpn: Qpn, request: &SendRequest<'_>) -> Result<Option<Destination>, PostError> {
        let Some(named) = request.destination else { return Ok(None) };
        let qp = self.qps.get(qpn).ok_or(PostError::UnknownHandle)?;
        let handle = self
            .ahs
            .get(named.ah)
            .filter(|handle| handle.pd == qp.attributes.init.pd)
            .ok_or(PostError::InvalidDestination)?;
        let route = Route::resolve(&handle.path, &self.port, qpn, named.qpn, self.config.ecn)
            .ok_or(PostError::InvalidDestination)?;
        Ok(Some(Destination { route, qpn: named.qpn, qkey: named.qkey }))
    }

    /// The queue pairs, what they work with, and their schedule.
    fn split(&mut self, now: Instant) -> (&mut QpTable, Environment<'_, M>, &mut Schedule) {
        let env = Environment {
            now,
            memory: &mut self.memory,
            keys: &mut self.keys,
            cqs: &mut self.cqs,
            srqs: &mut self.srqs,
            events: &mut self.events,
            counters: &mut self.counters,
            port: &self.port,
            config: &self.config,
            has_lost_completion: false,
        };
        (&mut self.qps, env, &mut self.schedule)
    }
}

/// A packet's payload; nothing if it cannot be that of such a packet.
fn without_pad<'a>(headers: &Headers, payload: Payload<'a>) -> Option<Payload<'a>> {
    let layout = headers.bth.opcode.layout()?;
    let is_good = headers.bth.version == 0 && headers.is_consistent();
    let length = payload.len().checked_sub(usize::from(headers.bth.pad_count))?;
    let (payload, _) = payload.split_at(length)?;
    let may_carry = matches!(layout.kind, Kind::Send | Kind::Write | Kind::ReadResponse);
    (is_good && (may_carry || payload.is_empty())).then_some(payload)
}
