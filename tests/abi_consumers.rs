//! Programs and libraries of the system, as they are, on the shared object under test.

mod common;

use std::process::Command;

use common::{compile, library_dir, run, shared_object, text};

#[test]
fn every_relocation_of_the_providers_resolves() {
    for provider in ["libmlx5.so.1", "libefa.so.1", "libmlx4.so.1", "libmana.so.1", "librdmacm.so.1"] {
        let path = format!("/usr/lib/x86_64-linux-gnu/{provider}");
        let listed = Command::new("ldd")
            .args(["-r", &path])
            .env("LD_LIBRARY_PATH", library_dir().path())
            .output()
            .expect("ldd");
        let text = format!("{}{}", text(listed.clone()), String::from_utf8_lossy(&listed.stderr));
        assert!(text.contains("libibverbs.so.1"), "{text}");
        assert!(!text.contains("undefined") && !text.contains("not found"), "{provider}: {text}");
    }
}

#[test]
fn perftest_starts() {
    for program in ["ib_write_bw", "ib_send_lat", "ib_read_bw", "ib_atomic_lat"] {
        let printed = run(program, &["--help"]); // which ends with status 1 on any library
        let help = String::from_utf8_lossy(&printed.stdout);
        assert!(help.contains("connect to server at <host>"), "{program}: {printed:?}");
    }
}

#[test]
fn pyverbs_is_imported() {
    let script = "import pyverbs.device, pyverbs.qp, pyverbs.cq, pyverbs.mr; print('imported')";
    assert_eq!(text(run("/usr/bin/python3", &["-c", script])), "imported\n");
}

#[test]
fn both_versions_of_a_symbol_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("versions", dir.path());
    let library = shared_object();
    assert_eq!(text(run(program, &[library.to_str().unwrap()])), "all found, old and new differ\n");
}
