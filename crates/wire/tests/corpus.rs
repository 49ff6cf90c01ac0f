//! Replays what fuzzing found worth keeping.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/checks/cm.rs"]
mod cm;
#[path = "../../../fuzz/checks/packet.rs"]
mod packet;

#[test]
fn the_corpus_of_the_packet_parser_holds() {
    replay("packet", packet::check, 40);
}

#[test]
fn the_corpus_of_connection_management_holds() {
    replay("cm", cm::check, 14);
}

/// Feeds every file of a corpus to `check`; there are at least `fewest`.
fn replay(target: &str, check: fn(&[u8]), fewest: usize) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is a part of the repository") {
        let path = entry.expect("the corpus can be listed").path();
        let bytes = fs::read(&path).expect("the corpus can be read");
        println!("{}", path.display());
        check(&bytes);
        files += 1;
    }
    assert!(files >= fewest, "only {files} files in {}", corpus.display());
}
