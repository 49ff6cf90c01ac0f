//! The `softverbs` program.

fn main() {}
