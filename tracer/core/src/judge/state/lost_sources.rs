//! Keeps sources that were lost while recording.
//!
//! A GCS that no longer answers differs from a probe that was never there.

use crate::{
    event::{Probe, ProbeState},
    ids::BootTime,
};

/// At most this many losses are kept: the first ones.
const MOST: usize = 256;

/// A source that went away.
#[derive(Debug)]
pub(crate) struct LostSource {
    pub(crate) name: String,
    pub(crate) time: BootTime,
    pub(crate) back: Option<BootTime>,
    pub(crate) reason: Option<String>,
}

/// Records a probe's new state, and when it went away and came back. `probes` are those known
/// before.
pub(crate) fn note(
    all: &mut Vec<LostSource>,
    probes: &[Probe],
    mut probe: Probe,
    time: BootTime,
) -> Probe {
    let before = probes.iter().find(|known| known.name == probe.name);
    let before = before.map(|known| known.state);
    let worked = matches!(before, Some(ProbeState::Ok | ProbeState::Degraded));
    match probe.state {
        ProbeState::Missing if worked => {
            probe.state = ProbeState::Gone;
            if all.len() < MOST {
                all.push(LostSource {
                    name: probe.name.clone(),
                    time,
                    back: None,
                    reason: probe.reason.clone(),
                });
            }
        }
        ProbeState::Missing if before == Some(ProbeState::Gone) => probe.state = ProbeState::Gone,
        ProbeState::Ok | ProbeState::Degraded => {
            let away = all.iter_mut().rev().find(|gone| gone.name == probe.name);
            if let Some(away) = away {
                away.back.get_or_insert(time);
            }
        }
        ProbeState::Missing | ProbeState::Gone => {}
    }
    probe
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that worked went away and may come back; one that never worked is missing.
    #[test]
    fn lost_source_differs_from_a_missing_one() {
        use ProbeState::{Gone as Away, Missing, Ok};
        let (mut all, mut probes) = (Vec::new(), Vec::new());
        let mut states = Vec::new();
        for (time, state) in [
            (1, Missing),
            (2, Ok),
            (3, Missing),
            (4, Missing),
            (5, Ok),
            (6, Missing),
        ] {
            let probe = Probe {
                name: "GCS 192.0.2.2:6379".into(),
                state,
                reason: None,
                required: false,
            };
            let probe = note(&mut all, &probes, probe, BootTime(time));
            states.push(probe.state);
            probes = vec![probe];
        }
        assert_eq!(states, [Missing, Ok, Away, Away, Ok, Away]);
        let times: Vec<_> = all.iter().map(|one| (one.time.0, one.back)).collect();
        assert_eq!(times, [(3, Some(BootTime(5))), (6, None)]);
    }
}
