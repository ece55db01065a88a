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
            let message = command::own_path::with_path(&command::message(&error));
            anstream::eprintln!("raytrace: {message}");
            ExitCode::from(command::exit_code(&error))
        }
    }
}
