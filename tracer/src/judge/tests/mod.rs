//! Staged event sequences and the verdicts that they must give.

mod cascade;
mod kernel;
mod ray;
mod scene;
mod signals;
mod timeline;
