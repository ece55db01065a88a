//! Development tasks of raytrace: `cargo xtask TASK`.
//!
//! The tasks are `check`, `setup`, `build-ebpf`, `demo`, `gallery`, `test`, `real`, `gpu`, `vm`,
//! `fuzz`, `soak`, `canary`, `dist`, `sbom`, `release-notes` and `bench`. Starting one needs only
//! stable Rust. A task installs what else it needs, and says so.

mod bench;
mod canary;
mod check;
mod demo;
mod dist;
mod ebpf;
mod figures;
mod fuzz;
mod gallery;
mod layout;
mod process;
mod real;
mod setup;
mod soak;
mod steady;
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
    /// Check a change before it is sent, without root, in under five minutes once all is built:
    /// format, lints, partial builds, documents, unit tests, dependencies, workflows.
    Check {
        /// Fail if a check has to be skipped because a tool or the network is missing.
        #[arg(long)]
        complete: bool,
    },
    /// Install what the tests need: Ray into target/ray, the eBPF toolchain, Chromium, QEMU and
    /// Debian's kernels, lint tools. What is installed already is left as it is.
    Setup,
    /// Compile the eBPF programs and replace the committed object; needed after a change in
    /// tracer-ebpf.
    BuildEbpf,
    /// Record a private Ray cluster while its workers die in real ways, and print the report.
    Demo,
    /// Run the examples on private Ray clusters and save what raytrace prints about each beside it.
    Gallery {
        /// Their folders below examples; all without one.
        names: Vec<String>,
    },
    /// Set up what is missing and run every test.
    Test,
    /// Run jobs of real frameworks that die of memory, and compare what raytrace says with the
    /// truth (16 GB in target/real, minutes each).
    Real {
        /// Their names in `tests/real/cases.py`; all without one.
        names: Vec<String>,
        /// Run each once more with the first remedy that the report prints, applied as printed.
        #[arg(long)]
        remedies: bool,
        /// Number of runs of each job.
        #[arg(long, default_value_t = 1)]
        times: u32,
        /// Run Ray's own tests instead, from this folder (`python/ray/tests` of its repository);
        /// the names are files in it.
        #[arg(long, value_name = "FOLDER", conflicts_with_all = ["remedies", "times"])]
        ray_tests: Option<std::path::PathBuf>,
        /// The release of Ray that goes with that folder.
        #[arg(
            long,
            value_name = "VERSION",
            default_value = "2.55.1",
            requires = "ray_tests"
        )]
        ray: String,
    },
    /// Stage on an NVIDIA GPU what only a GPU shows, and compare what raytrace says with the truth.
    /// Exit code 3: there is no GPU to use.
    Gpu {
        /// Only these.
        cases: Vec<real::gpu::Case>,
        /// A Python that has Ray, and torch if its own error is wanted; Ray is not installed then.
        #[arg(long)]
        python: Option<std::path::PathBuf>,
    },
    /// Boot Debian's kernels in QEMU, and compare each verdict with what was staged there (a part
    /// of `test`).
    Vm,
    /// Run libFuzzer on each parser of foreign bytes, from real samples (`cargo xtask fuzz
    /// --seconds 3600 raylet_log`).
    Fuzz {
        /// Their names, the files of `tests/fuzz/fuzz_targets`; all without one.
        names: Vec<String>,
        /// Seconds for each parser.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Run the long versions of tests: an hour of fuzzing for each parser, the recorder killed 200
    /// times, floods at full size, a month on simulated time.
    Soak {
        #[command(subcommand)]
        part: Option<Soak>,
    },
    /// Check that the newest Ray of the package index still logs what raytrace reads (a part of
    /// `soak`).
    Canary,
    /// Build programs for `x86_64` and `aarch64` that need glibc 2.28 and nothing else, and pack
    /// them: wheel, deb, rpm, image, tarball, into target/dist (some of them: `cargo xtask dist
    /// x86_64`).
    Dist {
        /// Only these.
        #[arg(value_parser = ["x86_64", "aarch64"])]
        architectures: Vec<String>,
        /// Build nothing: pack this program, for this machine.
        #[arg(long, conflicts_with = "architectures")]
        program: Option<std::path::PathBuf>,
    },
    /// Write what the program is made of into target/dist, in `CycloneDX`'s JSON (needs
    /// cargo-cyclonedx).
    Sbom,
    /// Print what CHANGELOG.md says about the release with this tag (`v0.1.0`).
    ReleaseNotes {
        /// The tag.
        tag: String,
    },
    /// Measure what recording costs: interleaved pairs with and without, per hook, on an idle
    /// cluster (half an hour; some parts of it: `cargo xtask bench idle many-processes`).
    Bench {
        /// Only these parts.
        parts: Vec<bench::Part>,
    },
    /// The many processes of the benchmark, until standard input ends.
    #[command(hide = true)]
    BenchManyProcesses {
        /// One of it.
        #[arg(long)]
        member: Option<u32>,
    },
    /// Many processes for the benchmark, until standard input ends.
    #[command(hide = true)]
    BenchProcesses {
        /// What they do.
        kind: bench::Processes,
        /// How many there are.
        count: u32,
    },
    /// One load of the benchmark; runs and prints its cost as JSON for each line of standard input.
    #[command(hide = true)]
    BenchLoad {
        /// The load.
        load: bench::Load,
        /// What a raylet has among its arguments.
        #[arg(long = "raylet_socket_name")]
        _socket: String,
    },
}

/// A part of the soak.
#[derive(Subcommand)]
enum Soak {
    /// Record a job of Ray for hours. The raw figures stay in target/soak/long.jsonl; an
    /// interrupted run is continued.
    Long {
        /// Hours in all, those of an interrupted run included.
        hours: f64,
    },
    /// Write thirty days on simulated time.
    Month,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Check { complete } => check::everything(complete),
        Task::Setup => setup::everything(),
        Task::BuildEbpf => ebpf::build(),
        Task::Demo => demo::run_demo(),
        Task::Gallery { names } => gallery::make(&names),
        Task::Test => test::everything(),
        Task::Real {
            names,
            ray_tests: Some(folder),
            ray,
            ..
        } => real::ray_tests::run_all(&folder, &names, &ray),
        Task::Real {
            names,
            remedies,
            times,
            ..
        } => real::run_all(&names, remedies, times),
        Task::Gpu { cases, python } => real::gpu::run_all(&cases, python.as_deref()),
        Task::Vm => test::kernels(),
        Task::Fuzz { names, seconds } => fuzz::run_each(&names, seconds),
        Task::Soak { part: None } => test::soak(),
        Task::Soak {
            part: Some(Soak::Long { hours }),
        } => soak::long(hours),
        Task::Soak {
            part: Some(Soak::Month),
        } => soak::month(),
        Task::Canary => canary::newest(),
        Task::Dist {
            architectures,
            program,
        } => dist::make(&architectures, program.as_deref()),
        Task::Sbom => dist::sbom::make(),
        Task::ReleaseNotes { tag } => dist::notes::print(&tag),
        Task::Bench { parts } => bench::run(&parts),
        Task::BenchManyProcesses { member } => bench::many_processes(member),
        Task::BenchProcesses { kind, count } => kind.run(count),
        Task::BenchLoad { load, .. } => load.serve(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
