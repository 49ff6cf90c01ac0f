//! The input files of other simulators.
//!
//! | module | simulator |
//! |---|---|
//! | [`hpcc`] | the HPCC simulator for ns-3 and its many descendants: topology, flow and config files |

pub mod hpcc;
