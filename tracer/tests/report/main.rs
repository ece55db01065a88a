//! Tests `raytrace report` and `export` as programs: output, files and exit codes.
#![allow(clippy::disallowed_methods, reason = "tests read what they have made")]

mod fail;
mod frameworks;
mod hostile;
mod library;
mod output;
mod ran;
mod redacted;
mod refusals;
mod selection;
mod stage;
mod text;
