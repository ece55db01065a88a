//! Development tasks of raytrace: `cargo xtask setup | build-ebpf | demo | test | bench`.
//!
//! Needs nothing but stable Rust to start; what a task needs besides, it installs itself and says so.

mod bench;
mod demo;
mod ebpf;
mod layout;
mod process;
mod setup;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development tasks of raytrace.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the tests need: Ray into target/ray, the eBPF toolchain, Chromium, lint tools. May be repeated.
    Setup,
    /// Compile the eBPF programs and replace the committed object; needed after a change in tracer-ebpf.
    BuildEbpf,
    /// Record a private Ray cluster while its workers die in real ways, and print the report.
    Demo,
    /// Set up what is missing and run every test.
    Test,
    /// Measure what recording costs: interleaved pairs with and without, per hook, on an idle cluster (about 10 minutes).
    Bench,
    /// One load of the benchmark; prints its cost as JSON.
    #[command(hide = true)]
    BenchLoad {
        /// Which.
        load: bench::Load,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Setup => setup::everything(),
        Task::BuildEbpf => ebpf::build(),
        Task::Demo => demo::run_demo(),
        Task::Test => test::everything(),
        Task::Bench => bench::run(),
        Task::BenchLoad { load } => load.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
