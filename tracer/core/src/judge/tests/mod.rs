//! Staged event sequences and the verdicts that they must give.

mod advice;
mod cascade;
mod caught;
mod causes;
mod effects;
mod findings;
mod fleet;
mod forged;
mod gcs;
mod growth;
mod growth_remedies;
mod interference;
mod job_ends;
mod kernel;
mod limits;
mod live;
mod open_verdicts;
mod order;
mod own_log;
mod ray;
mod ray_cleanup;
mod remedy_choice;
mod scene;
mod signals;
mod slurm;
mod timeline;
