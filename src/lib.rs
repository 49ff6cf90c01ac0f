//! Softverbs as a drop-in `libibverbs.so.1`.

mod abi;
