//! `foresight [APPROACHES [HEALTHY]]`: scores the forecast on so many approaches of each family, and so many healthy shapes.

use raytrace_tests::foresight::table;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().ok());
    let mut next = |otherwise| numbers.next().flatten().unwrap_or(otherwise);
    let (approaches, healthy) = (next(40), next(10));
    print!("{}", table(approaches, healthy));
}
