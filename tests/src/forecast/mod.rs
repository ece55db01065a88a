//! Scores the forecast of kills for memory, with the measures that are used for weather forecasts.
//!
//! The shapes of memory over time were made for this, and are replayed through the live path.

mod recorded;
mod replay;
mod score;
pub mod shapes;

pub use recorded::{golden, of_file};
pub use replay::{Outcome, replay};
pub use score::table;
