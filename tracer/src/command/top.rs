//! `raytrace top`: shows a live view on a terminal, and always restores the terminal.

mod source;

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use ratatui::{DefaultTerminal, crossterm::event};
use source::Source;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::usage;
use crate::show::top::{KeyOutcome, Top};

/// The most keys that are queued. More than that is pasted text.
const KEYS: usize = 256;

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  sudo raytrace top                 Watch every Ray cluster of this machine; write nothing
  sudo raytrace top run.raytrace    Follow what `raytrace record` is writing; attach nothing
  raytrace top old.raytrace         Step through a recording that has ended, from its last kill on
  raytrace top                      Watch without root: no verdict is proven
  ssh -t gpu-07 sudo raytrace top

Keys: arrows select, Enter opens details, g groups by class, process or component, s sorts,
/ filters, Tab switches to the deaths, ? shows help, q quits. In a recording that has ended, the
arrows left and right go to the sample before and after, [ and ] to the death before and after.
NO_COLOR=1 turns colors off.

Exit codes:
  0  success
  2  stdout is not a terminal, or the file is missing
  6  the recording is damaged or from a newer raytrace")]
pub struct TopArgs {
    /// Recording to follow or to step through [default: attach to the clusters of this machine].
    file: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    if !std::io::stdout().is_terminal() {
        return Err(usage(
            "stdout is not a terminal; for a file or a pipe use raytrace record, then raytrace report",
        ));
    }
    super::block_on(top(args.file.as_deref()))
}

/// The terminal in its alternate screen, restored when this is dropped. Ratatui's hook restores it
/// on a panic too.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> anyhow::Result<Self> {
        let terminal = ratatui::try_init().context("cannot draw on this terminal")?;
        Ok(Self(terminal))
    }

    fn draw(&mut self, top: &Top) -> anyhow::Result<()> {
        let drawn = self.0.draw(|frame| top.draw(frame));
        drawn.map(drop).context("cannot draw on this terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

async fn top(file: Option<&Path>) -> anyhow::Result<ExitCode> {
    // Errors before the screen is opened are printed on a plain terminal.
    let mut source = Source::open(file)?;
    let mut end_signals = EndSignals::listen()?;
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut top = Top::new(&source.name(), colour);
    source.refresh(&mut top)?;
    let mut screen = Screen::open()?;
    let mut keys = keys()?;
    let mut stale = true;
    let mut frame = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            biased;
            key = keys.recv() => match key {
                Some(event::Event::Key(key)) => match top.key(key) {
                    KeyOutcome::Quit => break,
                    KeyOutcome::Step(step) => {
                        source.step(step, &mut top)?;
                        stale = true;
                    }
                    KeyOutcome::Draw => {
                        source.answer(&mut top)?;
                        stale = true;
                    }
                },
                Some(_) => stale = true,
                // The terminal is gone.
                None => break,
            },
            () = end_signals.recv() => break,
            change = source.next(&mut top) => stale |= change?,
            // Changes are drawn together, so that a slow connection can keep up.
            _ = frame.tick(), if stale => {
                screen.draw(&top)?;
                stale = false;
            }
        }
    }
    drop(screen);
    Box::pin(source.close()).await;
    Ok(ExitCode::SUCCESS)
}

/// The signals that end the view.
struct EndSignals([tokio::signal::unix::Signal; 4]);

impl EndSignals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ]))
    }

    async fn recv(&mut self) {
        let [interrupt, terminate, hangup, quit] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

/// Starts a thread that reads keys and changes of the terminal's size. It ends with the process.
fn keys() -> anyhow::Result<mpsc::Receiver<event::Event>> {
    let (sender, receiver) = mpsc::channel(KEYS);
    let read = move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("keys".into());
    thread
        .stack_size(256 << 10)
        .spawn(read)
        .context("cannot read the keyboard")?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::Read as _,
        os::fd::{FromRawFd as _, OwnedFd},
        process::{Command, Stdio},
    };

    use super::*;

    /// Opens a pseudo-terminal: the side of the user, and the side of the program.
    fn terminal() -> (File, File) {
        let (mut outside, mut inside) = (-1, -1);
        let size = libc::winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: both descriptors are written to live integers, and neither a name nor modes are
        // requested.
        let result = unsafe {
            libc::openpty(
                &raw mut outside,
                &raw mut inside,
                std::ptr::null_mut(),
                std::ptr::null(),
                &raw const size,
            )
        };
        assert_eq!(result, 0, "a terminal");
        // SAFETY: openpty has just created them, and nothing else owns them.
        let own = |fd| File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        (own(outside), own(inside))
    }

    #[test]
    #[ignore = "it is run by the test below, on a terminal of its own"]
    fn panics_while_it_draws() {
        let mut screen = Screen::open().expect("a terminal");
        screen.draw(&Top::new("", true)).expect("a frame");
        panic!("on purpose");
    }

    #[test]
    fn panic_restores_the_terminal() {
        let (mut outside, inside) = terminal();
        let modes = |file: &File| {
            let modes = rustix::termios::tcgetattr(file).expect("modes");
            (modes.local_modes, modes.input_modes, modes.output_modes)
        };
        let before = modes(&inside);
        let side = || Stdio::from(inside.try_clone().expect("a descriptor"));
        let name = "command::top::tests::panics_while_it_draws";
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", name, "--ignored", "--nocapture"])
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("the test above");
        let read = std::thread::spawn(move || {
            let mut seen = Vec::new();
            let mut piece = [0; 4096];
            // Reading ends when the last program that has the terminal open closes it.
            while let Ok(count) = outside.read(&mut piece) {
                seen.extend_from_slice(&piece[..count]);
            }
            String::from_utf8_lossy(&seen).into_owned()
        });
        assert!(!child.wait().expect("an end").success());
        assert_eq!(modes(&inside), before);
        drop(inside);
        let seen = read.join().expect("a reader");
        let (_, after) = seen.rsplit_once("raytrace top").expect("a frame");
        for (what, sequence) in [
            ("the other screen is left", "\u{1b}[?1049l"),
            ("the cursor is shown", "\u{1b}[?25h"),
            ("the panic is told", "on purpose"),
        ] {
            assert!(after.contains(sequence), "{what}: {after:?}");
        }
    }
}
