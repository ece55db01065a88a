//! The binary: parse, run, map the error to an exit code.

use std::process::ExitCode;

use clap::Parser as _;
use raytrace::{cli::Cli, command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    command::init_log(cli.verbose);
    match command::run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            anstream::eprintln!("raytrace: {}", command::message(&error));
            ExitCode::from(command::exit_code(&error))
        }
    }
}
