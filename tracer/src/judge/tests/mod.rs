//! Staged event sequences and the verdicts that they must give.

mod advice;
mod cascade;
mod causes;
mod effects;
mod findings;
mod gcs;
mod growth;
mod kernel;
mod ray;
mod scene;
mod signals;
mod timeline;
