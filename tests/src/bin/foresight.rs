//! `foresight [APPROACHES [HEALTHY]]` scores the forecast on so many approaches of each family and so many healthy shapes, and
//! replays the golden recordings; `foresight FILE…` says what would have been told of recordings.

use std::{env, path::Path, process::ExitCode};

use raytrace_tests::foresight::{golden, of_file, table};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let numbers: Vec<Option<u32>> = arguments.iter().map(|text| text.parse().ok()).collect();
    if numbers.contains(&None) {
        return told(&arguments);
    }
    let number =
        |place: usize, otherwise| numbers.get(place).copied().flatten().unwrap_or(otherwise);
    print!("{}", table(number(0, 40), number(1, 10)));
    match golden() {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("golden recordings: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn told(files: &[String]) -> ExitCode {
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
