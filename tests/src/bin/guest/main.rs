//! The program of a virtual machine of the kernel matrix: its init, its stage, and its victims.
//!
//! Apart from raytrace the machine has no other program. Without arguments this is init: it records
//! `guest stage`, and writes the truth and the report to the second serial port. `guest stage FILE`
//! stages every kind of death that the kernel supports, and writes down the truth.
//! `guest act NAME …` is one process that dies.
//!
//! Init with `locked` or `refused` records a few deaths (`guest few FILE`) where the kernel refuses
//! hooks. With `hostile` it records beside a hostile process.

mod acts;
mod cases;
mod hostile;
mod init;
mod interference;
mod refused;
mod stage;
mod threads;

use std::{env, process::ExitCode};

use anyhow::{Context as _, Result};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["stage", truth] => stage::run(truth.as_ref()),
        ["act", rest @ ..] => act(rest),
        ["few", truth] => refused::few(truth.as_ref()),
        ["locked"] => init::run(refused::by_lockdown),
        ["refused"] => init::run(refused::by_hooks),
        ["hostile"] => init::run(hostile::run),
        _ => init::run(init::matrix),
    };
    if let Err(error) = result {
        eprintln!("guest {}: {error:#}", words.join(" "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn act(words: &[&str]) -> Result<()> {
    let (name, arguments) = words.split_first().context("no act is named")?;
    acts::run(name, arguments)
}
