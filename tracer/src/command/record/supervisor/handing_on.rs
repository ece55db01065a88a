//! Decides which signals are handed on to COMMAND: those that it has not got itself.
//!
//! The kernel sends a signal for a process group to each of its members, the youngest first. The
//! witness is younger than the supervisor, so it has the signal already when the supervisor gets
//! it. Whoever signals all processes one by one (Slurm with `proctrack/linuxproc`, `kill -1`, a
//! service manager) reaches the witness shortly before or after.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::signals::Received;

/// How long the witness has for a signal that is sent to all processes one by one. The sender needs
/// some milliseconds for a large job, and may have to wait for a CPU. A program that is asked to
/// save a checkpoint does not notice a quarter of a second.
const GRACE: Duration = Duration::from_millis(250);
/// How long what the witness got is kept for a signal that the supervisor gets later.
const KEPT: Duration = Duration::from_secs(1);

/// The signals that wait for the decision.
#[derive(Debug)]
pub(super) struct HandingOn {
    /// The pids of the supervisor and COMMAND. What these send is not meant for COMMAND.
    own: [u32; 2],
    waiting: VecDeque<(Instant, Received)>,
    witnessed: Vec<(Instant, Received)>,
}

impl HandingOn {
    pub(super) fn new(own: [u32; 2]) -> Self {
        Self {
            own,
            waiting: VecDeque::new(),
            witnessed: Vec::new(),
        }
    }

    /// Takes a signal that the supervisor got.
    pub(super) fn received(&mut self, now: Instant, signal: Received) {
        // A positive code is of an event of the supervisor's own, such as the end of a child.
        let of_its_own = signal.code > 0 || self.own.contains(&signal.pid);
        if signal.code == libc::SI_KERNEL || !of_its_own {
            self.waiting.push_back((now + GRACE, signal));
        }
    }

    /// Takes a signal that the witness got: COMMAND has got it too.
    pub(super) fn witnessed(&mut self, now: Instant, signal: Received) {
        // The oldest signal may wait for long: the supervisor stops with COMMAND.
        let oldest = self.next().map_or(now, |due| due.min(now));
        self.witnessed.retain(|(time, _)| oldest < *time + KEPT);
        self.witnessed.push((now, signal));
    }

    /// Returns when the next signal is to be decided.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// Decides the signals that are due, and returns those that COMMAND has not got.
    pub(super) fn decide(&mut self, now: Instant) -> Vec<Received> {
        let mut missing = Vec::new();
        while let Some((due, signal)) = self.waiting.front().copied()
            && due <= now
        {
            self.waiting.pop_front();
            if !self.has_it(due, signal) {
                missing.push(signal);
            }
        }
        missing
    }

    /// Whether the witness got the same signal at about the time. Each that it got counts once.
    fn has_it(&mut self, due: Instant, signal: Received) -> bool {
        let at = self
            .witnessed
            .iter()
            .position(|(time, seen)| *seen == signal && due < *time + KEPT);
        at.map(|at| self.witnessed.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 100;
    const COMMAND: u32 = 101;

    fn sent(number: i32, pid: u32) -> Received {
        Received {
            number,
            pid,
            ..Received::default()
        }
    }

    fn handing_on() -> (HandingOn, Instant) {
        (HandingOn::new([OWN, COMMAND]), Instant::now())
    }

    #[test]
    fn signal_to_the_supervisor_alone_is_handed_on_after_a_while() {
        let (mut handing_on, now) = handing_on();
        handing_on.received(now, sent(10, 7));
        assert_eq!(handing_on.decide(now), []);
        assert_eq!(handing_on.next(), Some(now + GRACE));
        assert_eq!(handing_on.decide(now + GRACE), [sent(10, 7)]);
        assert_eq!(handing_on.decide(now + GRACE), []);
    }

    #[test]
    fn signal_that_the_witness_got_is_not_handed_on() {
        for (witness, supervisor) in [(0, 0), (0, 50), (50, 0), (240, 0)] {
            let (mut handing_on, now) = handing_on();
            let at = |millis| now + Duration::from_millis(millis);
            if witness <= supervisor {
                handing_on.witnessed(at(witness), sent(10, 7));
                handing_on.received(at(supervisor), sent(10, 7));
            } else {
                handing_on.received(at(supervisor), sent(10, 7));
                handing_on.witnessed(at(witness), sent(10, 7));
            }
            assert_eq!(handing_on.decide(at(supervisor) + GRACE), []);
        }
    }

    /// One to the group, then one to the supervisor, by one sender.
    #[test]
    fn each_act_counts_for_itself() {
        let (mut handing_on, now) = handing_on();
        handing_on.received(now, sent(10, 7));
        handing_on.witnessed(now, sent(10, 7));
        handing_on.received(now, sent(10, 7));
        handing_on.received(now, sent(10, 8));
        handing_on.received(now, sent(12, 7));
        let expected = [sent(10, 7), sent(10, 8), sent(12, 7)];
        assert_eq!(handing_on.decide(now + GRACE), expected);
    }

    #[test]
    fn old_words_of_the_witness_do_not_count() {
        let (mut handing_on, now) = handing_on();
        handing_on.witnessed(now, sent(10, 7));
        let later = now + KEPT;
        handing_on.received(later, sent(10, 7));
        assert_eq!(handing_on.decide(later + GRACE), [sent(10, 7)]);
    }

    /// The supervisor was stopped between the signal that stops and its decision.
    #[test]
    fn signal_that_stops_is_not_handed_on_when_both_continue() {
        let (mut handing_on, now) = handing_on();
        handing_on.received(now, sent(21, 7));
        handing_on.witnessed(now, sent(21, 7));
        let later = now + Duration::from_secs(60);
        handing_on.received(later, sent(18, 7));
        handing_on.witnessed(later, sent(18, 7));
        assert_eq!(handing_on.decide(later + GRACE), []);
    }

    #[test]
    fn own_events_are_not_meant_for_the_command() {
        let (mut handing_on, now) = handing_on();
        let child_ended = Received {
            code: libc::CLD_EXITED,
            ..sent(17, 9)
        };
        for signal in [child_ended, sent(10, OWN), sent(10, COMMAND)] {
            handing_on.received(now, signal);
        }
        assert_eq!(handing_on.decide(now + GRACE), []);
        // The terminal of a session's leader hangs up.
        let hangup = Received {
            code: libc::SI_KERNEL,
            ..sent(1, 0)
        };
        handing_on.received(now, hangup);
        assert_eq!(handing_on.decide(now + GRACE), [hangup]);
    }
}
