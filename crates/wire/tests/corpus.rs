//! Replays what fuzzing found worth keeping.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/checks/packet.rs"]
mod packet;

#[test]
fn the_corpus_of_the_packet_parser_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/packet");
    let mut files = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is a part of the repository") {
        let path = entry.expect("the corpus can be listed").path();
        let bytes = fs::read(&path).expect("the corpus can be read");
        println!("{}", path.display());
        packet::check(&bytes);
        files += 1;
    }
    assert!(files >= 40, "only {files} files in {}", corpus.display());
}
