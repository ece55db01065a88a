//! Virtual machines: a Debian kernel in QEMU, without KVM.
//!
//! The initrd holds raytrace, its libraries and one init.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufWriter, Write as _},
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{initrd::Initrd, keep, ray_root, recorder::raytrace, staging::target};

/// A machine to start.
pub struct Machine<'a> {
    /// The Debian suite. Its newest kernel runs, which `cargo xtask vm` puts under `target/vm`.
    pub suite: &'a str,
    /// Its root file system and its init.
    pub root: Root<'a>,
    /// The kind of its disk: `nvme` or `ide-hd`. The kernel must have the driver built in.
    pub disk: &'a str,
    /// Further arguments of QEMU, such as `-smp 2,maxcpus=128`.
    pub arguments: &'a [&'a str],
    /// Further words of the kernel's command line, such as `lockdown=confidentiality`.
    pub kernel: &'a str,
}

/// What a machine has in addition to raytrace.
#[derive(Clone, Copy)]
pub enum Root<'a> {
    /// One program, its init.
    Program(&'a Path),
    /// A program as init, which is given a word. Another program is beside it, as `/machine`.
    Programs(&'a Path, &'a Path, &'a str),
    /// Python with this version of Ray. Its init is a script of `tests/staging`, which is given a
    /// word.
    Ray(&'a str, &'a str, &'a str),
}

impl Root<'_> {
    /// Returns the memory of the machine in MiB.
    fn memory(self) -> &'static str {
        match self {
            Self::Program(_) | Self::Programs(..) => "512",
            Self::Ray(..) => "7500",
        }
    }

    /// Returns the processor. QEMU 7.2 corrupts the flags of cmpxchg16b if an interrupt comes at
    /// the wrong moment, so that is left out. Ray's libraries need a newer processor.
    fn processor(self) -> &'static str {
        match self {
            Self::Program(_) | Self::Programs(..) => "qemu64,-cx16",
            Self::Ray(..) => "max,-cx16",
        }
    }

    /// Returns the words of the kernel's command line that start init.
    fn init(self) -> String {
        match self {
            Self::Program(_) => "rdinit=/init".to_owned(),
            Self::Programs(_, _, word) => format!("rdinit=/init -- {word}"),
            Self::Ray(version, name, word) => {
                let (python, script) = (ray_root::python(version), ray_root::script(name));
                format!("rdinit={} -- {} {word}", python.display(), script.display())
            }
        }
    }

    /// Returns the folder of a run. Machines with the same kernel may run side by side.
    fn folder(self) -> String {
        match self {
            Self::Program(_) | Self::Ray(_, _, "") => "run".to_owned(),
            Self::Programs(_, _, word) | Self::Ray(_, _, word) => format!("run-{word}"),
        }
    }

    /// Returns how long to wait for a machine. A boot with its staging takes 20 to 100 seconds, or
    /// twice as long beside other work. About one in a hundred stalls and is started once more
    /// after this time.
    fn patience(self) -> Duration {
        Duration::from_secs(match self {
            Self::Program(_) => 300,
            // These run several recorders, one after the other.
            Self::Programs(..) => 400,
            Self::Ray(..) => 2400,
        })
    }
}

/// What a machine wrote, by section.
pub type Sections = HashMap<String, String>;

impl Machine<'_> {
    /// Starts the machine, waits until it has switched itself off, and reads what it wrote. The
    /// output stays in `target/vm/SUITE/run*`.
    ///
    /// A machine that stalls or panics is started once more, and this is printed: QEMU 7.2 without
    /// KVM does that now and then.
    pub fn run(&self) -> Result<Sections> {
        self.once().or_else(|error| {
            eprintln!("{}: started once more: {error:#}", self.suite);
            self.once()
        })
    }

    /// Starts several machines at the same time that know of each other. If one stalls, all are
    /// started once more.
    pub fn run_together(machines: &[Self]) -> Result<Vec<Sections>> {
        Self::all_once(machines).or_else(|error| {
            eprintln!("{} machines: started once more: {error:#}", machines.len());
            Self::all_once(machines)
        })
    }

    fn all_once(machines: &[Self]) -> Result<Vec<Sections>> {
        thread::scope(|scope| {
            let started: Vec<_> = (machines.iter())
                .map(|machine| scope.spawn(|| machine.once()))
                .collect();
            let ended = started.into_iter().map(thread::ScopedJoinHandle::join);
            ended
                .map(|one| one.unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        })
    }

    fn once(&self) -> Result<Sections> {
        let home = target().join("vm").join(self.suite);
        let kernel = home.join("vmlinuz");
        if !kernel.exists() {
            bail!("no kernel at {}; run: cargo xtask vm", kernel.display());
        }
        let folder = &home.join(self.root.folder());
        fs::create_dir_all(folder)?;
        let (initrd, swap) = (folder.join("initrd"), folder.join("swap"));
        match self.root {
            Root::Program(init) => write_initrd(&[(init, "init")], &initrd, folder)?,
            Root::Programs(init, other, _) => {
                write_initrd(&[(init, "init"), (other, "machine")], &initrd, folder)?;
            }
            Root::Ray(version, ..) => {
                let modules = home.join("modules");
                ray_root::write(version, &raytrace(), &modules, &initrd, folder)?;
            }
        }
        File::create(&swap)?.set_len(64 << 20)?;
        let (console, out) = (folder.join("console"), folder.join("out"));
        // Removes the output of an earlier run.
        for old in [&console, &out] {
            if old.exists() {
                fs::remove_file(old)?;
            }
        }
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args([
                "-accel",
                // Virtual CPUs take turns. If each has a thread, kernels now and then wait for one
                // another for ever.
                "tcg,thread=single",
                "-m",
                self.root.memory(),
                "-no-reboot",
                "-nic",
                "none",
            ])
            .args(["-cpu", self.root.processor()])
            .args(["-display", "none", "-monitor", "none"])
            .arg("-append")
            .arg(format!(
                "console=ttyS0 loglevel=4 panic=-1 oops=panic swapaccount=1 {} {} {}",
                self.kernel,
                keep::folder().map_or("", |_| "keep=1"),
                self.root.init()
            ))
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(initrd)
            .args(["-serial", &format!("file:{}", console.display())])
            .args(["-serial", &format!("file:{}", out.display())])
            .args([
                "-drive",
                &format!("file={},if=none,id=swap,format=raw", swap.display()),
            ])
            .args(["-device", &format!("{},serial=swap,drive=swap", self.disk)])
            .args(self.arguments);
        let ended = wait(&mut command, self.root.patience());
        let text = fs::read_to_string(&out)
            .unwrap_or_default()
            .replace('\r', "");
        let sections = sections(&text);
        // Everything has been written then, even if the machine does not switch itself off.
        if sections.contains_key("end") {
            if let Some(recording) = sections.get("recording") {
                let folder = folder.file_name().unwrap_or_default();
                let name = format!("{}-{}", self.suite, folder.display());
                keep::packed(name.trim_end_matches("-run"), recording)?;
            }
            return Ok(sections);
        }
        let said = fs::read_to_string(&console).unwrap_or_default();
        ended.with_context(|| format!("{said}\n{text}"))?;
        bail!("the machine ended before its init did:\n{said}\n{text}")
    }
}

fn wait(command: &mut Command, patience: Duration) -> Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start qemu-system-x86_64; run: cargo xtask vm")?;
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("qemu ended with {status}");
            }
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    bail!("the machine did not switch itself off within {patience:?}")
}

fn sections(text: &str) -> Sections {
    let parts = text.split("=== ").skip(1);
    parts
        .filter_map(|part| part.split_once('\n'))
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .collect()
}

fn write_initrd(programs: &[(&Path, &str)], to: &Path, folder: &Path) -> Result<()> {
    let mut archive = Initrd::new(BufWriter::new(File::create(to)?));
    let raytrace = raytrace();
    for (program, name) in programs.iter().copied().chain([(&*raytrace, "raytrace")]) {
        for library in libraries(program)? {
            archive.file(&library, &fs::read(&library)?)?;
        }
        let stripped = strip(program, folder, name)?;
        archive.file(&Path::new("/").join(name), &fs::read(&stripped)?)?;
    }
    Ok(archive.finish()?.flush()?)
}

/// Strips a program of its line numbers, which would fill a quarter of the machine's memory.
pub(crate) fn strip(program: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    let stripped = folder.join(name);
    let done = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(program)
        .status()?;
    if !done.success() {
        bail!("strip {} ended with {done}", program.display());
    }
    Ok(stripped)
}

/// Returns the shared libraries and the loader of a program.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .context("cannot start ldd")?;
    let text = String::from_utf8(output.stdout)?;
    let paths = text
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}
