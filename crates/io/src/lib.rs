//! Moves frames through the operating system; knows no protocol.
