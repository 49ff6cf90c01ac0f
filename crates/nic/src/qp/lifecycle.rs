//! How a queue pair comes to work, drains, and breaks.

use super::responder::Breach;
use super::transport::Transport;
use super::{Environment, QueuePair};
use crate::memory::Memory;
use crate::packet::Route;
use crate::verbs::{AsyncEvent, CompletionOpcode, QpAttributes, QpState, QpType, Status};

impl QueuePair {
    /// Takes note of new attributes and a new state, which is not RESET.
    pub fn on_modified<M: Memory>(&mut self, env: &mut Environment<'_, M>, from: QpState) {
        let to = self.state();
        match (from, to) {
            (QpState::Init, QpState::Rtr) => {
                self.is_established = false;
                self.resolve_route(env);
                self.transport.start_receiving(self.attributes.rq_psn);
            }
            (QpState::Rtr, QpState::Rts) => {
                let (connection, transport, _) = self.split();
                transport.start_sending(connection);
            }
            (QpState::Sqd, QpState::Sqd | QpState::Rts) => self.resolve_route(env),
            (_, QpState::Sqd) => self.attributes.sq_draining = true,
            (QpState::Error, QpState::Error) => {}
            (_, QpState::Error) => {
                // It is there only once it has been flushed.
                self.attributes.state = from;
                self.transport.silence();
                self.enter_error(env);
            }
            _ => {}
        }
        self.attributes.sq_draining &= to == QpState::Sqd;
        self.review(env);
    }

    /// Looks after every step whether it ended something.
    pub(super) fn review<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        if self.transport.is_broken() {
            self.on_broken(env);
        } else if self.attributes.sq_draining && self.transport.is_drained() {
            self.attributes.sq_draining = false;
            if self.attributes.sqd_notify {
                env.raise(AsyncEvent::SqDrained(self.qpn));
            }
        }
        if let Some(breach) = self.transport.take_breach() {
            self.on_breach(env, breach);
        }
        if env.has_lost_completion {
            self.on_lost_completion(env);
        }
    }

    /// Ends the queue pair's work: both queues are flushed.
    pub(super) fn enter_error<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        if self.state() == QpState::Error {
            return;
        }
        self.attributes.state = QpState::Error;
        self.attributes.sq_draining = false;
        self.flush_sends(env);
        self.flush_receives(env);
        if self.attributes.init.srq.is_some() {
            env.raise(AsyncEvent::LastWqeReached(self.qpn));
        }
    }

    pub(super) fn flush_sends<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        let (connection, transport, _) = self.split();
        transport.flush_sends(connection, env);
    }

    pub(super) fn flush_receives<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        let (connection, transport, receives) = self.split();
        transport.flush_receive(connection, env);
        while let Some(receive) = receives.take() {
            let status = Status::WorkRequestFlushed;
            let completion = connection.completion(receive.wr_id, status, CompletionOpcode::Recv);
            env.complete(connection.attributes.init.recv_cq, completion, false);
        }
    }

    /// A send request failed: that ends a reliable connection, and of the others the send queue (IBTA
    /// 10.3.1).
    fn on_broken<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        match self.transport {
            Transport::Reliable(..) => {
                self.transport.silence();
                self.enter_error(env);
            }
            Transport::Unreliable(..) | Transport::Datagram(_) => {
                self.attributes.state = QpState::Sqe;
                self.flush_sends(env);
            }
        }
    }

    /// The responder ended the connection. What it has to say yet, the NAK that tells why among it, is
    /// still sent.
    fn on_breach<M: Memory>(&mut self, env: &mut Environment<'_, M>, breach: Breach) {
        if self.state() == QpState::Error {
            return;
        }
        match breach {
            Breach::InvalidRequest => env.raise(AsyncEvent::QpRequestError(self.qpn)),
            Breach::Access => env.raise(AsyncEvent::QpAccessError(self.qpn)),
            Breach::Receive => {}
        }
        self.enter_error(env);
    }

    /// A completion queue overran, so that no completion can tell how requests end any more (IBTA 9.9.3:
    /// a fault of class G).
    fn on_lost_completion<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        if self.state() != QpState::Error {
            env.raise(AsyncEvent::QpFatal(self.qpn));
            self.transport.silence();
            self.enter_error(env);
        }
        env.has_lost_completion = false;
    }

    fn resolve_route<M>(&mut self, env: &Environment<'_, M>) {
        if self.attributes.init.qp_type == QpType::Ud {
            return;
        }
        let QpAttributes { path, dest_qp, .. } = &self.attributes;
        // The path was checked when it was set; if our GID has gone since, the old route leads nowhere,
        // as it should.
        if let Some(route) = Route::resolve(path, env.port, self.qpn, *dest_qp, env.config.ecn) {
            self.route = route;
        }
    }
}
