//! `softverbs run`: programs get our library, and are otherwise as without it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softverbs"));
    command.arg("run").args(arguments).stdin(Stdio::null());
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Compiles a C program.
fn compile(directory: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let (code, program) = (directory.join("program.c"), directory.join("program"));
    fs::write(&code, source).unwrap();
    let compiled = Command::new("cc").arg(&code).args(["-o"]).arg(&program).args(flags).output().unwrap();
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    program
}

/// Says which file the verbs library was loaded from.
const WHICH_LIBRARY: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdio.h>
    int main(void) {
        void *library = dlopen("libibverbs.so.1", RTLD_NOW);
        Dl_info info;
        if (!library || !dladdr(dlsym(library, "ibv_get_device_list"), &info)) return puts(dlerror()), 1;
        return puts(info.dli_fname), 0;
    }
"#;

#[test]
fn the_program_loads_our_library() {
    let directory = TempDir::new().unwrap();
    let program = compile(directory.path(), WHICH_LIBRARY, &["-ldl"]);
    let output = run(&["--", program.to_str().unwrap()]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let loaded = Path::new(stdout(&output).trim()).canonicalize().unwrap();
    assert_eq!(loaded.file_name().unwrap(), "libsoftverbs.so");
}

#[test]
fn an_installed_program_finds_the_library_that_came_with_it() {
    let directory = TempDir::new().unwrap();
    let (bin, lib) = (directory.path().join("bin"), directory.path().join("lib"));
    let program = Path::new(env!("CARGO_BIN_EXE_softverbs"));
    for (target, source) in [
        (bin.join("softverbs"), program.to_owned()),
        (lib.join("libsoftverbs.so"), program.parent().unwrap().join("deps/libsoftverbs.so")),
    ] {
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(source, target).unwrap();
    }
    let installed =
        |arguments: &[&str]| Command::new(bin.join("softverbs")).args(arguments).output().unwrap();
    let output = installed(&["run", "--", "sh", "-c", "readlink ${LD_LIBRARY_PATH%%:*}/libibverbs.so.1"]);
    assert_eq!(stdout(&output), format!("{}\n", lib.join("libsoftverbs.so").display()));

    fs::remove_dir_all(&lib).unwrap();
    let output = installed(&["run", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("cannot find libsoftverbs.so beside"), "{}", stderr(&output));
}

#[test]
fn the_program_is_as_without_us() {
    let output = run(&["--", "sh", "-c", "echo out; echo err >&2; exit 7", "name"]);
    assert_eq!((output.status.code(), stdout(&output), stderr(&output)), (Some(7), "out\n", "err\n"));
    let output = run(&["--", "sh", "-c", "echo $0-$1", "zero", "--json"]);
    assert_eq!(stdout(&output), "zero---json\n");
    let output = run(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.signal(), Some(9));

    let child = command(&["--", "sh", "-c", "echo $$"]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), format!("{pid}\n"));
}

#[test]
fn settings_reach_the_program() {
    let directory = TempDir::new().unwrap();
    let pcap = directory.path().join("x.pcap");
    let print = "echo $SOFTVERBS_DEVICE_NAME $SOFTVERBS_FAULT $SOFTVERBS_PCAP $SOFTVERBS_PROGRAM";
    let settings = ["--device-name", "mlx5_0", "--fault", "loss=1%,seed=3", "--pcap"];
    let arguments = [&settings[..], &[pcap.to_str().unwrap(), "sh", "-c", print]].concat();
    let output = run(&arguments);
    let program = Path::new(env!("CARGO_BIN_EXE_softverbs")).canonicalize().unwrap();
    let expected = format!("mlx5_0 loss=1%,seed=3 {} {}\n", pcap.display(), program.display());
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    assert_eq!(fs::read(&pcap).unwrap().len(), 24);
}

#[test]
fn our_directory_comes_first_and_the_rest_stays() {
    let output = command(&["--", "sh", "-c", "echo $LD_LIBRARY_PATH"])
        .env("LD_LIBRARY_PATH", "/one:/two")
        .output()
        .unwrap();
    let (first, rest) = stdout(&output).trim().split_once(':').unwrap();
    assert_eq!(rest, "/one:/two");
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        assert!(Path::new(first).join(name).exists());
    }
}

#[test]
fn captures_are_replaced_or_added_to() {
    let directory = TempDir::new().unwrap();
    let pcap = directory.path().join("x.pcap");
    fs::write(&pcap, [0; 100]).unwrap();
    let path = pcap.to_str().unwrap();
    assert!(run(&["--pcap", path, "--pcap-append", "true"]).status.success());
    assert_eq!(fs::read(&pcap).unwrap().len(), 100);
    assert!(run(&["--pcap", path, "true"]).status.success());
    assert_eq!(fs::read(&pcap).unwrap().len(), 24);

    let output = run(&["--pcap", "/nonexistent/x.pcap", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("cannot write the capture file /nonexistent/x.pcap"), "{output:?}");
}

#[test]
fn programs_that_cannot_be_run_are_told_apart() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "no program").unwrap();
    for (program, status, reason) in [
        ("no-such-program", 127, "program not found in the PATH: no-such-program"),
        ("/no/such/program", 127, "program not found: /no/such/program"),
        (file.to_str().unwrap(), 126, "not an executable file"),
        (directory.path().to_str().unwrap(), 126, "not an executable file"),
    ] {
        let output = run(&["--", program]);
        assert_eq!(output.status.code(), Some(status), "{program}");
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
    fs::write(&file, "#!/no/such/interpreter").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let output = run(&["--", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("cannot execute"), "{}", stderr(&output));
}

#[test]
fn wrong_settings_are_refused() {
    for (arguments, reason) in [
        (["--fault", "loss=2"], "expected loss="),
        (["--fault", "delay=1%"], "expected loss="),
        (["--device-name", "../x"], "expected 1 to 63 letters"),
        (["--library", "/no/such.so"], "cannot find /no/such.so"),
    ] {
        let output = run(&[&arguments[..], &["true"]].concat());
        assert!(!output.status.success() && stderr(&output).contains(reason), "{output:?}");
    }
    assert!(!run(&[]).status.success());
}

#[test]
fn static_programs_are_warned_of() {
    let directory = TempDir::new().unwrap();
    let program = compile(directory.path(), "int main(void) { return 3; }", &["-static"]);
    let output = run(&["--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("is statically linked"), "{}", stderr(&output));
}

#[test]
fn programs_with_more_rights_are_warned_of() {
    let directory = TempDir::new().unwrap();
    // SAFETY: has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    let program = if is_root {
        let program = compile(directory.path(), "int main(void) { return 0; }", &[]);
        chown(&program, Some(65534), None).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        program
    } else {
        PathBuf::from("/bin/su")
    };
    let output = run(&["--", program.to_str().unwrap(), "--help"]);
    assert!(stderr(&output).contains("runs with more rights than its user"), "{}", stderr(&output));
}

#[test]
fn programs_with_a_library_of_their_own_are_warned_of() {
    let directory = TempDir::new().unwrap();
    symlink("/dev/null", directory.path().join("libibverbs.so.1")).unwrap();
    let source = "int main(void) { return 0; }";
    for rpath in [directory.path().to_str().unwrap(), "$ORIGIN"] {
        let rpath = format!("-Wl,-rpath,/elsewhere:{rpath}");
        let program = compile(directory.path(), source, &[&rpath, "-Wl,--disable-new-dtags"]);
        let output = run(&["--", program.to_str().unwrap()]);
        assert!(stderr(&output).contains("has a fixed search path (DT_RPATH)"), "{}", stderr(&output));
        // A run path comes after what the loader is told.
        let program = compile(directory.path(), source, &[&rpath, "-Wl,--enable-new-dtags"]);
        assert_eq!(stderr(&run(&["--", program.to_str().unwrap()])), "");
    }
}
