//! Staged event sequences and the verdicts that they must give.

mod advice;
mod aftermath;
mod alternatives;
mod cascade;
mod causes;
mod effects;
mod findings;
mod fleet;
mod forged;
mod gcs;
mod growth;
mod job_ends;
mod kernel;
mod open;
mod ray;
mod remedies;
mod scene;
mod signals;
mod timeline;
