//! The structures and constants of libibverbs 44 and librdmacm 44, under their C names.
//!
//! The list is the headers', not this library's needs: programs lay these structures out, and so the whole of each must
//! be right. A test has the C compiler check every size, offset and value.
#![allow(non_camel_case_types, non_snake_case)] // C names
#![allow(dead_code)] // fields and constants that only programs use
#![allow(clippy::upper_case_acronyms)]

pub(crate) mod address;
pub(crate) mod cm;
pub(crate) mod completion;
pub(crate) mod constants;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod flow;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod queue_pair;
pub(crate) mod receive;
pub(crate) mod work;

#[cfg(test)]
mod tests {
    use std::{fmt::Write, fs, process::Command};

    use super::*;
    use crate::abi::layout::Layout;

    const LAYOUTS: &[&[Layout]] = &[
        address::LAYOUTS,
        cm::LAYOUTS,
        completion::LAYOUTS,
        context::LAYOUTS,
        device::LAYOUTS,
        flow::LAYOUTS,
        kernel::LAYOUTS,
        memory::LAYOUTS,
        queue_pair::LAYOUTS,
        receive::LAYOUTS,
        work::LAYOUTS,
    ];

    const CONSTANTS: &[&[(&str, i128)]] = &[cm::CONSTANTS, constants::CONSTANTS];

    fn constants() -> impl Iterator<Item = &'static (&'static str, i128)> {
        CONSTANTS.iter().copied().flatten()
    }

    fn layouts() -> impl Iterator<Item = &'static Layout> {
        LAYOUTS.iter().copied().flatten()
    }

    /// The C name of a field whose Rust name may be a keyword.
    fn c_field(name: &str) -> &str {
        name.strip_prefix("r#").unwrap_or(name)
    }

    /// One line for each fact, as Rust sees it.
    fn facts_of_rust() -> String {
        let mut facts = String::new();
        for layout in layouts() {
            writeln!(facts, "{} size {} align {}", layout.c_type, layout.size, layout.align).unwrap();
            for field in layout.fields {
                let (name, offset, size) = (c_field(field.name), field.offset, field.size);
                writeln!(facts, "{} . {name} offset {offset} size {size}", layout.c_type).unwrap();
            }
        }
        for (name, value) in constants() {
            writeln!(facts, "{name} {value}").unwrap();
        }
        facts
    }

    /// A C program that prints the same lines from the headers.
    fn program_of_facts() -> String {
        let mut lines = String::new();
        for layout in layouts() {
            let c_type = layout.c_type;
            writeln!(lines, "SIZE({c_type});").unwrap();
            for field in layout.fields {
                writeln!(lines, "FIELD({c_type}, {});", c_field(field.name)).unwrap();
            }
        }
        for (name, _) in constants() {
            writeln!(lines, "CONSTANT({name});").unwrap();
        }
        format!(
            r#"
            #include <stddef.h>
            #include <stdio.h>
            #include <time.h>
            #include <infiniband/sa.h>
            #include <infiniband/verbs.h>
            #include <rdma/ib_user_sa.h>
            #include <rdma/ib_user_verbs.h>
            #include <rdma/rdma_cma.h>
            #include <rdma/rsocket.h>
            #define SIZE(t) printf("%s size %zu align %zu\n", #t, sizeof(t), _Alignof(t))
            #define FIELD(t, f) printf("%s . %s offset %zu size %zu\n", #t, #f, offsetof(t, f), sizeof(((t *)0)->f))
            #define CONSTANT(c) printf("%s %lld\n", #c, (long long)c)
            int main(void) {{ {lines} return 0; }}
            "#
        )
    }

    #[test]
    fn the_c_compiler_agrees_with_every_layout_and_constant() {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("facts.c"), dir.path().join("facts"));
        fs::write(&source, program_of_facts()).unwrap();
        let compiled =
            Command::new("cc").arg(&source).arg("-o").arg(&program).output().expect("a C compiler");
        let errors = String::from_utf8_lossy(&compiled.stderr);
        assert!(
            compiled.status.success(),
            "are the headers of libibverbs-dev and librdmacm-dev installed?\n{errors}"
        );
        let printed = Command::new(&program).output().unwrap();
        let facts_of_c = String::from_utf8(printed.stdout).unwrap();
        let facts_of_rust = facts_of_rust();
        assert!(facts_of_rust.lines().count() > 800, "most structures are missing from the list");
        for (rust, c) in facts_of_rust.lines().zip(facts_of_c.lines()) {
            assert_eq!(rust, c, "left: Rust, right: C");
        }
        assert_eq!(facts_of_rust, facts_of_c);
    }
}
