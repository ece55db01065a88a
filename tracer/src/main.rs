//! The binary: parses the command line, runs the command and maps errors to exit codes.

use std::process::ExitCode;

use clap::Parser as _;
use raytrace::{
    cli::{self, Cli},
    command,
};

fn main() -> ExitCode {
    let arguments = Cli::parse();
    command::init_log(arguments.verbose);
    match cli::run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            let message = command::own_path::with_path(&command::message(&error));
            anstream::eprintln!("raytrace: {message}");
            ExitCode::from(command::exit_code(&error))
        }
    }
}
