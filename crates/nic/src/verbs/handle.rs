//! Names of objects. A handle that was destroyed is not reused soon, and is refused until then.

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    )* };
}

handles! {
    /// A protection domain.
    Pd;
    /// A memory region.
    Mr;
    /// A memory window.
    Mw;
    /// A completion queue.
    Cq;
    /// A shared receive queue.
    Srq;
    /// An address handle.
    Ah;
}
