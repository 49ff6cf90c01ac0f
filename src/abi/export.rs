//! Versioned ELF symbols, which Rust cannot name by itself.
//!
//! A function with `#[no_mangle]` would get rustc's own anonymous version first and silently, so no function of the C face
//! is `no_mangle`. Each exported name is a label that jumps to its function: `.symver` wants a symbol that is defined in
//! the same object and is not hidden. The macro must expand in the crate that becomes the shared object; out of a
//! dependency the link would succeed without a single symbol.

/// Exports functions under versioned symbols; reads like the version script.
///
/// `"@@V"` is the version that new links get, `"@V"` one kept for old programs.
macro_rules! export {
    ($($version:literal { $($name:ident = $function:path;)* })*) => { $($(
        #[cfg(not(miri))]
        std::arch::global_asm!(
            ".pushsection .text.export, \"ax\", @progbits",
            concat!(".globl \"__", stringify!($name), $version, "\""),
            concat!(".type \"__", stringify!($name), $version, "\", @function"),
            concat!("\"__", stringify!($name), $version, "\":"),
            $crate::abi::export::jump!(),
            concat!(".size \"__", stringify!($name), $version, "\", . - \"__", stringify!($name), $version, "\""),
            concat!(".symver \"__", stringify!($name), $version, "\", ", stringify!($name), $version, ", remove"),
            ".popsection",
            function = sym $function,
        );
    )*)* };
}

/// Exports a zeroed byte, the one variable of the private interface, under a versioned symbol.
macro_rules! export_flag {
    ($name:ident, $version:literal) => {
        #[cfg(not(miri))]
        std::arch::global_asm!(
            ".pushsection .bss.export, \"aw\", @nobits",
            concat!(".globl \"__", stringify!($name), $version, "\""),
            concat!(".type \"__", stringify!($name), $version, "\", @object"),
            concat!("\"__", stringify!($name), $version, "\":"),
            ".skip 1",
            concat!(".size \"__", stringify!($name), $version, "\", 1"),
            concat!(
                ".symver \"__",
                stringify!($name),
                $version,
                "\", ",
                stringify!($name),
                $version,
                ", remove"
            ),
            ".popsection",
        );
    };
}

/// The instruction that continues in another function as if that had been called.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}

/// The instruction that continues in another function as if that had been called.
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b {function}"
    };
}

pub(crate) use {export, export_flag, jump};
