//! What happened to an id, and whom to tell.

use std::{
    collections::HashMap,
    ffi::{c_int, c_uint},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use host::cm::EventSink;
use nic::cm::{CmEvent, CmId};
use parking_lot::Mutex;

use super::{channel::EventQueue, id::IdRef, multicast::Membership};

/// What happened to an id.
#[derive(Debug)]
pub(super) struct News {
    /// The id; of a request for a connection, the listener.
    pub owner: IdRef,
    pub what: What,
}

/// What happened.
#[derive(Debug)]
pub(super) enum What {
    /// Something that needs no words.
    Plain { event: c_uint, status: c_int },
    /// Something that a peer did.
    Cm(Box<CmEvent>),
    /// The id is member of a multicast group now.
    Joined(Arc<Membership>),
}

/// An id's name towards [`Router`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token(pub u64);

impl Token {
    /// One that nobody had.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A connection: an open device's number, and the connection's name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConnectionKey {
    pub device: u32,
    pub connection: CmId,
}

/// Who is told what.
///
/// A connection that a peer asked for belongs to its listener until the program has taken the request; what happens to it
/// meanwhile waits here. Lock order: the adapter, this, a queue.
#[derive(Debug, Default)]
pub(super) struct Router(Mutex<Targets>);

#[derive(Debug, Default)]
struct Targets {
    ids: HashMap<Token, Target>,
    children: HashMap<ConnectionKey, Child>,
}

/// An id and the queue that its news goes to.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub id: IdRef,
    pub queue: Arc<EventQueue>,
}

/// A connection that a peer asked for.
#[derive(Debug)]
enum Child {
    /// It is without an id; this happened to it.
    Unborn(Vec<CmEvent>),
    /// It has this id.
    Id(Token),
}

/// The one of this process.
pub(super) static ROUTER: LazyLock<Router> = LazyLock::new(Router::default);

impl Router {
    /// News of an id goes to `target` from now on, also what is there already.
    pub fn set(&self, token: Token, target: Target) {
        let mut targets = self.0.lock();
        let (id, queue) = (target.id, target.queue.clone());
        if let Some(old) = targets.ids.insert(token, target) {
            old.queue.withdraw(|news| news.owner == id).into_iter().for_each(|news| queue.push(news));
        }
    }

    /// Tells an id something.
    pub fn tell(&self, token: Token, what: What) {
        self.0.lock().tell(token, what);
    }

    /// Takes back news of an id that nobody wants any more.
    pub fn withdraw(&self, token: Token, is_unwanted: impl Fn(&What) -> bool) {
        if let Some(Target { id, queue }) = self.0.lock().ids.get(&token) {
            queue.withdraw(|news| news.owner == *id && is_unwanted(&news.what));
        }
    }

    /// Forgets an id, and returns the news of it that nobody took.
    pub fn remove(&self, token: Token) -> Vec<News> {
        let target = self.0.lock().ids.remove(&token);
        target.map_or_else(Vec::new, |target| target.queue.withdraw(|news| news.owner == target.id))
    }

    /// Forgets a connection that a peer asked for.
    pub fn forget(&self, connection: ConnectionKey) {
        self.0.lock().children.remove(&connection);
    }

    /// Gives a connection that a peer asked for its id, which is told what happened meanwhile.
    pub fn adopt(&self, connection: ConnectionKey, token: Token) {
        let mut targets = self.0.lock();
        let before = targets.children.insert(connection, Child::Id(token));
        if let Some(Child::Unborn(events)) = before {
            for event in events {
                targets.tell(token, What::Cm(Box::new(event)));
            }
        }
    }

    fn deliver(&self, device: u32, token: Token, event: CmEvent) {
        let mut targets = self.0.lock();
        let key = ConnectionKey { device, connection: event.id() };
        if connection_requested(&event).is_some() {
            targets.children.insert(key, Child::Unborn(Vec::new()));
            return targets.tell(token, What::Cm(Box::new(event)));
        }
        match targets.children.get_mut(&key) {
            Some(Child::Unborn(events)) => events.push(event),
            Some(&mut Child::Id(token)) => targets.tell(token, What::Cm(Box::new(event))),
            None => targets.tell(token, What::Cm(Box::new(event))),
        }
    }
}

impl Targets {
    fn tell(&self, token: Token, what: What) {
        if let Some(Target { id, queue }) = self.ids.get(&token) {
            queue.push(News { owner: *id, what });
        }
    }
}

/// The connection that an event asks for, if it does.
pub(super) fn connection_requested(event: &CmEvent) -> Option<CmId> {
    match event {
        CmEvent::Request(request) => Some(request.id),
        CmEvent::SidrRequest(request) => Some(request.id),
        _ => None,
    }
}

/// What the connections of an open device report to.
#[derive(Debug)]
pub(super) struct Sink {
    /// The device's number.
    pub device: u32,
}

impl EventSink for Sink {
    fn deliver(&self, token: u64, event: CmEvent) {
        ROUTER.deliver(self.device, Token(token), event);
    }
}
