//! Every scenario through the C interface: what programs see that are linked to our `libibverbs.so.1`.

use std::time::Duration;

use conformance::{
    Library, Namespace, Program,
    playbill::{self, Playbill},
    suite::Suite,
};

fn main() {
    let mut suite = Suite::new();
    let playbill = Playbill { arm: "C interface", skips: &[], differences: &[], is_long: false };
    playbill.check(&mut suite, || {
        let (library, network) = (Library::build()?, Namespace::new()?);
        let file = library.directory().join("libibverbs.so.1");
        let program = Program::new(env!("CARGO_BIN_EXE_scenarios"))
            .args("play --arm abi --library")
            .arg(file.display())
            .limit(Duration::from_secs(120));
        playbill::outcomes(network.place(program))
    });
    suite.run()
}
