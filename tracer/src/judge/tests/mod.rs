//! Staged event sequences and the verdicts that they must give.

mod cascade;
mod findings;
mod kernel;
mod ray;
mod scene;
mod signals;
mod timeline;
