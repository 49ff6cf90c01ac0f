//! Gives the shared object its SONAME and its symbol versions.

fn main() {
    let map = std::path::absolute("libsoftverbs.map").expect("a current directory");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=libsoftverbs.map");
    for arg in [
        "-fuse-ld=lld".to_string(), // the one linker that takes rustc's version script and ours together
        "-Wl,-soname,libibverbs.so.1".to_string(),
        "-Wl,-z,nodelete".to_string(), // threads and thread-local storage outlive a dlclose()
        format!("-Wl,--version-script={}", map.display()),
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
}
