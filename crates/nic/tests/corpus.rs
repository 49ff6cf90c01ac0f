//! Replays what fuzzing found worth keeping.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/checks/nic/mod.rs"]
mod nic_checks;

#[test]
fn the_corpus_of_the_adapter_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/nic");
    let mut files = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is a part of the repository") {
        let path = entry.expect("the corpus can be listed").path();
        let bytes = fs::read(&path).expect("the corpus can be read");
        println!("{}", path.display());
        nic_checks::check(&bytes);
        files += 1;
    }
    assert!(files >= 100, "only {files} files in {}", corpus.display());
}
