//! Scores the forecast on generated shapes, or prints what it would have told of recordings.
//!
//! `forecast [APPROACHES [HEALTHY [FIRST]]]` plays APPROACHES shapes of each family that comes near
//! its limit and HEALTHY shapes of each healthy family, numbered from FIRST, and replays the golden
//! recordings. `forecast FILE…` replays these recordings.

use std::{env, path::Path, process::ExitCode};

use raytrace_tests::forecast::{golden, of_file, table};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let numbers: Vec<Option<u32>> = arguments.iter().map(|text| text.parse().ok()).collect();
    if numbers.contains(&None) {
        return print_warnings(&arguments);
    }
    let number =
        |place: usize, otherwise| numbers.get(place).copied().flatten().unwrap_or(otherwise);
    print!("{}", table(number(0, 40), number(1, 10), number(2, 0)));
    match golden() {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("golden recordings: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn print_warnings(files: &[String]) -> ExitCode {
    for file in files {
        match of_file(Path::new(file)) {
            Ok(text) => print!("{file}\n{text}"),
            Err(error) => {
                eprintln!("{file}: {error:#}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
