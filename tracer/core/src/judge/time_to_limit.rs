//! Says how long until a limit is hit, and whether Ray's monitor can act before the kernel.
//!
//! The input is samples, the output a verdict. The live recorder, `top` and a report of a finished
//! recording use the same functions.

use std::time::Duration;

use crate::{
    event::LimitOwner,
    ids::{BootTime, Bytes, MINUTE_NS, SECOND_NS},
    judge::killers::LimitMargin,
};

/// What counts against a limit, over time.
pub type Points = Vec<(BootTime, f64)>;

/// The rate is taken from the shortest of these windows in which memory moved by [`MOVED`].
const WINDOWS_NS: [i64; 3] = [10 * SECOND_NS, MINUTE_NS, 125 * SECOND_NS];
/// A move of this many bytes tells growth from noise.
const MOVED: f64 = 16.0 * 1024.0 * 1024.0;
/// A figure without a new row is as it was. After this time, that counts as a point of its own.
const STANDS_NS: i64 = 1_500_000_000;
/// A time that is further away is no forecast.
const FAR_S: f64 = 48.0 * 3600.0;
/// The same while less than half of the limit is used. The rate is that of seconds, as when a
/// process starts, and most growth ends long before it fills the rest.
const FAR_FROM_LIMIT_S: f64 = 60.0;
/// From the end of its interval, Ray needs this long to read /proc of every process, to choose and
/// to signal: 43 to 60 ms were seen.
const RAY_ACTS_S: f64 = 0.06;

/// The room between Ray's threshold and the kernel's limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MonitorHeadroom {
    /// What fits between the threshold and the kernel's limit.
    pub room: Bytes,
    /// The longest time from the crossing of the threshold to Ray's signal, in seconds.
    pub ray_needs_s: f64,
    /// How long until the room is full at the present rate, in seconds; `None` if nothing grows.
    pub room_lasts_s: Option<f64>,
}

impl MonitorHeadroom {
    /// Whether Ray acts in time.
    pub fn ray_wins(&self) -> bool {
        self.room_lasts_s
            .is_none_or(|lasts| lasts > self.ray_needs_s)
    }
}

/// Returns the rate at `now` in bytes per second; 0 if nothing moves.
pub fn rate(mut points: Points, now: BootTime) -> f64 {
    points.retain(|(time, _)| *time <= now);
    if let Some((time, used)) = points.last().copied()
        && now.since(time) > STANDS_NS
    {
        points.push((now, used));
    }
    for window in WINDOWS_NS {
        let from = points.partition_point(|(time, _)| now.since(*time) > window);
        let inside = &points[from..];
        let (Some((first, _)), Some((last, _))) = (inside.first(), inside.last()) else {
            continue;
        };
        let slope = slope(inside);
        let lasted = last.since(*first) as f64 / 1e9;
        if (slope * lasted).abs() >= MOVED {
            return slope;
        }
    }
    0.0
}

/// Returns the slope of the least-squares line through the points, in bytes per second.
fn slope(points: &[(BootTime, f64)]) -> f64 {
    let Some((start, _)) = points.first() else {
        return 0.0;
    };
    let count = points.len() as f64;
    let at = |time: &BootTime| time.since(*start) as f64 / 1e9;
    let mean_x = points.iter().map(|(time, _)| at(time)).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, used)| used).sum::<f64>() / count;
    let (mut both, mut square) = (0.0, 0.0);
    for (time, used) in points {
        let x = at(time) - mean_x;
        both += x * (used - mean_y);
        square += x * x;
    }
    if square > 0.0 { both / square } else { 0.0 }
}

/// Returns the time until the margin below a limit is used up at this rate; `None` if it does not
/// grow or that is too far away.
pub fn left(limit: Bytes, margin: Bytes, rate: f64) -> Option<Duration> {
    let seconds = margin.0 as f64 / rate;
    let far = if margin.0 > limit.0 / 2 {
        FAR_FROM_LIMIT_S
    } else {
        FAR_S
    };
    (rate > 0.0 && seconds < far).then(|| Duration::from_secs_f64(seconds))
}

/// Sorts the limits by which is hit first. Limits without growth come last, the nearest first.
pub fn sort(threats: &mut [LimitMargin]) {
    threats.sort_by_key(|threat| (threat.left.unwrap_or(Duration::MAX), threat.margin));
}

/// Returns the room between Ray's threshold and the nearest kernel limit behind it. `rate` gives
/// the growth of what the kernel counts. `None` if the monitor is off, or comes after the kernel
/// anyway.
pub fn monitor_headroom(
    threats: &[LimitMargin],
    refresh_ms: u64,
    rate: impl Fn(&LimitOwner) -> f64,
) -> Option<MonitorHeadroom> {
    let ray = threats
        .iter()
        .find(|one| one.limit_owner == LimitOwner::RayMonitor)?;
    let kernel = threats
        .iter()
        .filter(|one| one.limit_owner != LimitOwner::RayMonitor);
    let kernel = kernel.min_by_key(|one| one.margin)?;
    let room = kernel.margin.0.checked_sub(ray.margin.0)?;
    let rate = Some(rate(&kernel.limit_owner)).filter(|rate| *rate > 0.0);
    (room > 0).then(|| MonitorHeadroom {
        room: Bytes(room),
        ray_needs_s: refresh_ms as f64 / 1000.0 + RAY_ACTS_S,
        room_lasts_s: rate.map(|rate| room as f64 / rate),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    fn ramp(step_mib: f64, seconds: u32) -> Points {
        let point = |second| {
            (
                BootTime(u64::from(second) * SECOND),
                f64::from(second) * step_mib * MIB as f64,
            )
        };
        (0..=seconds).map(point).collect()
    }

    fn threat(limit_owner: LimitOwner, margin_mib: u64) -> LimitMargin {
        LimitMargin {
            limit_owner,
            at: Bytes(4096 * MIB),
            margin: Bytes(margin_mib * MIB),
            left: None,
        }
    }

    #[test]
    fn steady_ramp_gives_the_seconds_left() {
        let rate = rate(ramp(50.0, 20), BootTime(20 * SECOND));
        let left = left(Bytes(4000 * MIB), Bytes(1000 * MIB), rate).expect("seconds");
        assert!((left.as_secs_f64() - 20.0).abs() < 0.01, "{left:?}");
    }

    #[test]
    fn long_standstill_has_no_rate() {
        assert!(rate(ramp(50.0, 20), BootTime(700 * SECOND)).abs() < 1.0);
        assert_eq!(left(Bytes(10), Bytes(5), 0.0), None);
    }

    #[test]
    fn no_time_while_little_is_used() {
        let rate = 10.0 * MIB as f64;
        let of = |margin: u64| left(Bytes(4000 * MIB), Bytes(margin * MIB), rate);
        assert_eq!(of(3900), None);
        assert_eq!(of(1900), Some(Duration::from_secs(190)));
        let fast = left(Bytes(4000 * MIB), Bytes(3900 * MIB), 10.0 * rate);
        assert_eq!(fast, Some(Duration::from_secs(39)));
    }

    #[test]
    fn slow_leak_is_seen_in_longer_windows() {
        // 10 MiB in the shortest window could be noise.
        let rate = rate(ramp(1.0, 120), BootTime(120 * SECOND));
        assert!((rate / MIB as f64 - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn fast_growth_beats_rays_interval() {
        let threats = [
            threat(LimitOwner::RayMonitor, 100),
            threat(LimitOwner::Machine, 200),
        ];
        let at = |mib: u64| monitor_headroom(&threats, 250, |_| (mib * MIB) as f64).expect("room");
        assert!(at(100).ray_wins());
        assert!(!at(500).ray_wins());
        let unseen = [
            threat(LimitOwner::RayMonitor, 100),
            threat(LimitOwner::Cgroup("/pod".into()), 50),
        ];
        assert_eq!(monitor_headroom(&unseen, 250, |_| 1.0), None);
    }

    #[test]
    fn limit_hit_sooner_is_sorted_first() {
        let mut threats = [
            threat(LimitOwner::Machine, 10),
            threat(LimitOwner::RayMonitor, 100),
        ];
        threats[1].left = Some(Duration::from_secs(9));
        sort(&mut threats);
        assert_eq!(threats[0].limit_owner, LimitOwner::RayMonitor);
    }
}
