//! Renders the views of a [`Report`](crate::judge::report::Report), one file or folder for each.
//!
//! All of this is pure: no I/O, no clock. Every view takes what [`select::select`] kept, passes
//! foreign text through [`sanitize`], and returns a string. Text views have colours. Whoever prints
//! them removes these if the output is not a terminal (anstream does).

pub mod alike;
pub mod answer;
pub mod brief;
pub mod cascade;
pub mod causes;
pub mod clocks;
pub mod csv;
pub mod diff;
pub mod doctor;
pub mod document;
pub mod downsample;
pub mod evidence;
pub mod facts;
pub mod fail;
pub mod findings;
pub mod flamegraph;
pub mod fleet;
mod gcs;
mod gpus;
pub mod growth;
pub mod header;
mod held;
pub mod html;
mod in_use;
pub mod jobs;
pub mod json;
pub mod jsonl;
pub mod layout;
pub mod limit;
pub mod limit_warning;
pub mod live;
pub mod markdown;
mod minute;
mod owners;
pub mod publish;
pub mod rank;
pub mod recording_filter;
pub mod redact;
pub mod sanitize;
pub mod select;
pub mod settings;
mod shared_files;
pub mod summary;
pub mod text;
mod text_sources;
pub mod time;
pub mod top;
pub mod trace;
pub mod trend;
pub mod view;
pub mod words;

#[cfg(test)]
mod clause_tests;
#[cfg(test)]
mod tests;

pub use raytrace_core::{clause, size};
#[cfg(test)]
pub(crate) use tests::sample;
use time::Zone;

/// The style in which text is shown.
#[derive(Debug, Clone, Default)]
pub struct Style {
    /// Width in columns. The report is made for 80 to 120.
    pub width: usize,
    /// The zone of all times.
    pub zone: Zone,
    /// The recording's path, for the commands to type next.
    pub file: Option<String>,
    /// ` --since=-2h`, as it was typed: the numbers of kills depend on it.
    pub span: String,
    /// What to type after `sudo` to run this program.
    pub program: String,
}
