//! Each verbs scenario once, run on every arm.
