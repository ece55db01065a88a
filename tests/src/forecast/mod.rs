//! Scores the forecast of kills for memory as weather forecasts are scored: by shapes that were made for it, replayed through the live path.

mod recorded;
mod replay;
mod score;
pub mod shapes;

pub use recorded::{golden, of_file};
pub use replay::{Outcome, replay};
pub use score::table;
