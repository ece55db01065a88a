//! Fixtures of every message form, with the versions that print it.
