//! C structures listed once: the Rust type, and what a test compares with the C headers.

/// A type that may be all zero bytes, as C programs leave what they do not set.
///
/// # Safety
///
/// Zero must be a valid value of every field: numbers, raw pointers, optional functions, and structures of these.
pub(crate) unsafe trait Zeroed: Sized {
    /// The value whose bytes are all zero.
    fn zeroed() -> Self {
        // SAFETY: the implementor promises that zero bytes are a valid value.
        unsafe { std::mem::zeroed() }
    }
}

/// What the C compiler must agree with about one structure.
#[cfg(test)]
pub(crate) struct Layout {
    /// How C names the type, for instance `struct ibv_pd`.
    pub c_type: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Its fields in order.
    pub fields: &'static [Field],
}

/// What the C compiler must agree with about one field.
#[cfg(test)]
pub(crate) struct Field {
    /// Its name, the same in C and in Rust.
    pub name: &'static str,
    /// Its distance from the start of the structure in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
}

/// Declares `#[repr(C)]` structures and unions under their C names, and `LAYOUTS` beside them for the layout test.
///
/// A type that C leaves unnamed gives the C expression for it after the name: `struct rdma_wr = "..." { ... }`.
macro_rules! c_structs {
    ($($(#[$meta:meta])* $kind:ident $name:ident $(= $c_type:literal)? {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub(crate) $kind $name { $($(#[$field_meta])* pub $field: $type,)* }

            // SAFETY: the headers zero these structures themselves; every field type here is valid as zero.
            unsafe impl $crate::abi::layout::Zeroed for $name {}
        )*

        /// The structures of this file, as Rust lays them out.
        #[cfg(test)]
        pub(crate) const LAYOUTS: &[$crate::abi::layout::Layout] = &[$(
            $crate::abi::layout::Layout {
                c_type: $crate::abi::layout::c_type!($kind $name $($c_type)?),
                size: size_of::<$name>(),
                align: align_of::<$name>(),
                fields: &[$($crate::abi::layout::Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                    size: size_of::<$type>(),
                },)*],
            },
        )*];
    };
}

/// The C name of a structure of [`c_structs`].
#[cfg(test)]
macro_rules! c_type {
    ($kind:ident $name:ident) => {
        concat!(stringify!($kind), " ", stringify!($name))
    };
    ($kind:ident $name:ident $c_type:literal) => {
        $c_type
    };
}

/// Declares constants under their C names, and `CONSTANTS` beside them for the layout test.
macro_rules! c_constants {
    ($($(#[$meta:meta])* $type:ty { $($name:ident = $value:expr,)* })*) => {
        $($(#[$meta])* $(pub(crate) const $name: $type = $value;)* )*

        /// The constants of this file, as Rust has them.
        #[cfg(test)]
        pub(crate) const CONSTANTS: &[(&str, i128)] = &[$($((stringify!($name), $name as i128),)*)*];
    };
}

#[cfg(test)]
pub(crate) use c_type;
pub(crate) use {c_constants, c_structs};
