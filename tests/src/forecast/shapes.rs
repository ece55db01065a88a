//! Generates shapes of memory over time from a seed. Some reach their limit, some never do. Pure.
//!
//! A family is used for tuning or for scoring, never for both: the forecast's constants were chosen
//! with the families of [`Purpose::Tuning`] alone.

use std::f64::consts::TAU;

use fastrand::Rng;

/// What a family is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The forecast's constants were chosen with it.
    Tuning,
    /// No constant was chosen with it.
    Scored,
}

/// How a shape ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It reaches the limit.
    Killed,
    /// It never does.
    Healthy,
    /// It comes near the limit by an unprecedented rise, and then most is freed.
    TurnsBack,
}

/// Shapes of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it is used for.
    pub purpose: Purpose,
    /// How its shapes end.
    pub end: End,
    /// Whether its shapes go up and down: saw-teeth and spikes.
    pub swings: bool,
    make: fn(&mut Rng) -> Shape,
}

/// A call that has ended: title, beginning and end in seconds.
pub type EndedCall = (&'static str, f64, f64);

/// Gives the memory in use at a second, as a share of the limit.
type Level = Box<dyn FnMut(f64, &mut Rng) -> f64>;
/// Gives the call that has ended at a second.
type Calls = Box<dyn FnMut(f64) -> Option<EndedCall>>;

/// Memory in use over time, as a share of the limit.
pub struct Shape {
    /// Seconds after which it ends if it was not killed.
    pub seconds: u32,
    /// When the growth begins that ends at the limit.
    pub grows_from: f64,
    level: Level,
    calls: Calls,
    rng: Rng,
}

impl Shape {
    /// Returns the level at a second. It must be called for one second after the other.
    pub fn level(&mut self, second: u32) -> f64 {
        (self.level)(f64::from(second), &mut self.rng).max(0.02)
    }

    /// Returns the call that has ended in this second.
    pub fn ended_call(&mut self, second: u32) -> Option<EndedCall> {
        (self.calls)(f64::from(second))
    }
}

impl Family {
    /// Returns the shape with this number.
    pub fn shape(&self, number: u32) -> Shape {
        let mut seed = u64::from(number) + 1;
        for byte in self.name.bytes() {
            seed = seed.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
        }
        (self.make)(&mut Rng::with_seed(seed))
    }
}

const fn family(
    name: &'static str,
    purpose: Purpose,
    end: End,
    swings: bool,
    make: fn(&mut Rng) -> Shape,
) -> Family {
    Family {
        name,
        purpose,
        end,
        swings,
        make,
    }
}

/// All families.
pub const FAMILIES: [Family; 34] = {
    use End::{Healthy, Killed, TurnsBack};
    use Purpose::{Scored, Tuning};
    [
        family("ramp", Tuning, Killed, false, ramp),
        family("saw-teeth", Tuning, Killed, true, teeth),
        family("growth per call", Tuning, Killed, false, stairs),
        family("spikes on a leak", Tuning, Killed, true, spikes),
        family("slow leak", Tuning, Killed, false, leak),
        family("changing pace", Tuning, Killed, false, changing),
        family("jumps", Tuning, Killed, false, jumps),
        family("bent ramp", Tuning, Killed, false, bent),
        family("teeth that vary", Tuning, Killed, true, varying),
        family("ramp under teeth", Tuning, Killed, true, under),
        family("plateau", Tuning, Healthy, false, plateau),
        family("steady at 92 %", Tuning, Healthy, false, steady),
        family("steady saw-teeth", Tuning, Healthy, true, steady_teeth),
        family("spikes that fit", Tuning, Healthy, true, fitting_spikes),
        family("teeth that vary and stay", Tuning, Healthy, true, staying),
        family("load", Tuning, Healthy, false, load),
        family("ramp that turns back", Tuning, TurnsBack, false, turns),
        family("uneven ramp", Scored, Killed, false, uneven_ramp),
        family("quickening ramp", Scored, Killed, false, quickening),
        family("offload swing", Scored, Killed, true, swing),
        family("uneven saw-teeth", Scored, Killed, true, uneven_teeth),
        family("calls of many sizes", Scored, Killed, false, many_sizes),
        family("checkpoint every N steps", Scored, Killed, true, checkpoint),
        family("arenas", Scored, Killed, false, arenas),
        family("slow leak with waves", Scored, Killed, false, waves),
        family("two that grow", Scored, Killed, true, two),
        family("a week at 92 %", Scored, Healthy, false, week),
        family("steady offload swing", Scored, Healthy, true, steady_swing),
        family("evaluations that fit", Scored, Healthy, true, evaluations),
        family("allocator plateau", Scored, Healthy, false, allocator),
        family("jobs that come and go", Scored, Healthy, true, jobs),
        family(
            "uneven teeth without growth",
            Scored,
            Healthy,
            true,
            level_teeth,
        ),
        family("flushed each hour", Scored, Healthy, true, flushed),
        family("burst that turns back", Scored, TurnsBack, false, burst),
    ]
};

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * rng.f64()
}

/// Returns a random value, evenly distributed over orders of magnitude.
fn log_between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    between(rng, low.ln(), high.ln()).exp()
}

/// Returns a random value, normally distributed with deviation 1.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of floats saturates, and a shape lasts a week at most"
)]
fn whole(seconds: f64) -> u32 {
    seconds as u32
}

fn shape(
    rng: &mut Rng,
    seconds: f64,
    grows_from: f64,
    level: impl FnMut(f64, &mut Rng) -> f64 + 'static,
) -> Shape {
    Shape {
        seconds: whole(seconds),
        grows_from,
        level: Box::new(level),
        calls: Box::new(|_| None),
        rng: rng.fork(),
    }
}

/// Returns calls of one title, one after the other.
fn each(
    title: &'static str,
    period: f64,
    from: f64,
    lasts: f64,
) -> impl FnMut(f64) -> Option<EndedCall> {
    move |now| {
        let number = ((now - from - lasts) / period).floor();
        let began = from + number * period;
        (number >= 0.0 && now - began - lasts < 1.0).then_some((title, began, began + lasts))
    }
}

fn ramp(rng: &mut Rng) -> Shape {
    let (from, flat) = (between(rng, 0.15, 0.7), between(rng, 30.0, 300.0));
    let lasts = log_between(rng, 12.0, 3600.0);
    let noise = 0.002;
    shape(rng, flat + 1.3 * lasts + 30.0, flat, move |now, rng| {
        from + (1.0 - from) * ((now - flat) / lasts).max(0.0) + noise * normal(rng)
    })
}

fn teeth(rng: &mut Rng) -> Shape {
    let (period, height) = (between(rng, 8.0, 60.0), between(rng, 0.05, 0.25));
    let (count, from) = (between(rng, 6.0, 60.0), between(rng, 0.3, 0.65));
    let growth = (1.0 - from - height) / (count * period);
    let mut shape = shape(rng, 1.5 * count * period, 0.0, move |now, rng| {
        let phase = (now / period).fract();
        from + growth * now + height * phase + 0.002 * normal(rng)
    });
    shape.calls = Box::new(each("Trainer.step", period, 0.0, 0.95 * period));
    shape
}

fn stairs(rng: &mut Rng) -> Shape {
    let period = between(rng, 5.0, 60.0);
    let (count, from) = (between(rng, 8.0, 150.0), between(rng, 0.2, 0.6));
    let growth = (1.0 - from) / count;
    let mut shape = shape(rng, 1.5 * count * period, 0.0, move |now, rng| {
        let (whole, part) = ((now / period).floor(), (now / period).fract());
        from + growth * (whole + (part * 4.0).min(1.0)) + 0.002 * normal(rng)
    });
    shape.calls = Box::new(each("TaskRunner.run_step", period, 0.0, 0.5 * period));
    shape
}

fn spikes(rng: &mut Rng) -> Shape {
    let (period, lasts) = (between(rng, 120.0, 900.0), between(rng, 5.0, 20.0));
    let (height, count) = (between(rng, 0.1, 0.35), between(rng, 4.0, 12.0).floor());
    let from = between(rng, 0.3, 0.9 - height);
    let growth = (1.0 - from - height) / (count * period);
    let mut shape = shape(rng, 1.5 * count * period, 0.0, move |now, rng| {
        let into = (now % period) - (period - lasts);
        let spike = if into > 0.0 {
            height * (into / lasts * 1.5).min(1.0)
        } else {
            0.0
        };
        from + growth * now + spike + 0.002 * normal(rng)
    });
    shape.calls = Box::new(each("Trainer.save", period, period - lasts, lasts));
    shape
}

fn leak(rng: &mut Rng) -> Shape {
    let (from, lasts) = (
        between(rng, 0.3, 0.8),
        log_between(rng, 3600.0, 8.0 * 3600.0),
    );
    shape(rng, 1.2 * lasts, 0.0, move |now, rng| {
        from + (1.0 - from) * now / lasts + 0.003 * normal(rng)
    })
}

fn changing(rng: &mut Rng) -> Shape {
    let (from, flat) = (between(rng, 0.2, 0.7), between(rng, 60.0, 200.0));
    let lasts = log_between(rng, 20.0, 4000.0);
    let (mut level, mut pace, mut until) = (from, 1.0, flat);
    shape(rng, flat + 3.0 * lasts + 60.0, flat, move |now, rng| {
        if now >= until {
            until = now + lasts * between(rng, 0.05, 0.2);
            pace = between(rng, 0.3, 1.7);
        }
        level += if now < flat {
            0.0
        } else {
            pace * (1.0 - from) / lasts
        };
        level + 0.002 * normal(rng)
    })
}

fn jumps(rng: &mut Rng) -> Shape {
    let (from, mean) = (between(rng, 0.2, 0.6), between(rng, 0.005, 0.03));
    let lasts = log_between(rng, 60.0, 7200.0);
    let pause = lasts * mean / (1.0 - from);
    let mut level = from;
    shape(rng, 3.0 * lasts, 0.0, move |_, rng| {
        if rng.f64() < 1.0 / pause.max(1.0) {
            level -= mean * (1.0 - rng.f64()).ln() * pause.min(1.0).recip().min(1.0);
        }
        level + 0.002 * normal(rng)
    })
}

fn bent(rng: &mut Rng) -> Shape {
    let (from, bend) = (between(rng, 0.2, 0.6), between(rng, 0.0, 2.0));
    let (flat, lasts) = (between(rng, 30.0, 120.0), log_between(rng, 20.0, 2400.0));
    shape(rng, flat + 1.5 * lasts + 30.0, flat, move |now, rng| {
        let part = ((now - flat) / lasts).max(0.0);
        let up = part * (1.0 + bend * part) / (1.0 + bend);
        from + (1.0 - from) * up + 0.002 * normal(rng)
    })
}

fn varying(rng: &mut Rng) -> Shape {
    let (period, height) = (between(rng, 10.0, 60.0), between(rng, 0.06, 0.2));
    let (count, from) = (between(rng, 8.0, 50.0), between(rng, 0.3, 0.6));
    let growth = (1.0 - from - height) / (count * period);
    let (mut began, mut length, mut top) = (0.0, period, height);
    shape(rng, 2.0 * count * period, 0.0, move |now, rng| {
        if now >= began + length {
            began += length;
            length = period * between(rng, 0.6, 1.4);
            top = height * between(rng, 0.8, 1.2);
        }
        from + growth * now + top * (now - began) / length + 0.002 * normal(rng)
    })
}

fn staying(rng: &mut Rng) -> Shape {
    let (period, height) = (between(rng, 10.0, 90.0), between(rng, 0.05, 0.3));
    let low = between(rng, 0.75, 0.88) - height;
    let (mut began, mut length, mut top) = (0.0, period, height);
    shape(rng, 2.0 * 3600.0, 0.0, move |now, rng| {
        if now >= began + length {
            began += length;
            length = period * between(rng, 0.6, 1.4);
            top = height * between(rng, 0.7, 1.3);
        }
        low + top * (now - began) / length + 0.002 * normal(rng)
    })
}

fn under(rng: &mut Rng) -> Shape {
    let (period, height) = (between(rng, 10.0, 40.0), between(rng, 0.04, 0.15));
    let (flat, lasts) = (between(rng, 200.0, 800.0), log_between(rng, 80.0, 3000.0));
    let from = between(rng, 0.35, 0.65);
    shape(rng, flat + 1.3 * lasts, flat, move |now, rng| {
        let tooth = height * (1.0 - (2.0 * (now / period).fract() - 1.0).abs());
        from + tooth
            + (1.0 - from - 0.8 * height) * ((now - flat) / lasts).max(0.0)
            + 0.002 * normal(rng)
    })
}

fn plateau(rng: &mut Rng) -> Shape {
    let (from, to) = (between(rng, 0.1, 0.5), between(rng, 0.7, 0.95));
    let tau = log_between(rng, 60.0, 1200.0);
    shape(rng, 7200.0, 0.0, move |now, rng| {
        to - (to - from) * (-now / tau).exp() + 0.002 * normal(rng)
    })
}

fn steady(rng: &mut Rng) -> Shape {
    let middle = between(rng, 0.9, 0.93);
    let mut off = 0.0;
    shape(rng, 4.0 * 3600.0, 0.0, move |_, rng| {
        off = 0.97 * off + 0.0015 * normal(rng);
        middle + off
    })
}

fn steady_teeth(rng: &mut Rng) -> Shape {
    let (period, top) = (between(rng, 8.0, 120.0), between(rng, 0.8, 0.95));
    let height = between(rng, 0.05, 0.4);
    shape(rng, 3600.0, 0.0, move |now, rng| {
        top - height * (1.0 - (now / period).fract()) + 0.003 * normal(rng)
    })
}

fn fitting_spikes(rng: &mut Rng) -> Shape {
    let (period, lasts) = (between(rng, 120.0, 900.0), between(rng, 10.0, 30.0));
    let (from, top) = (between(rng, 0.4, 0.65), between(rng, 0.72, 0.93));
    // The first spike is within the first tenth of the period: a ramp without precedent.
    let begin = 0.9 * period;
    let mut shape = shape(rng, 7200.0, 0.0, move |now, rng| {
        let into = (now + begin) % period;
        let up = if into < lasts {
            (top - from) * (TAU / 2.0 * into / lasts).sin()
        } else {
            0.0
        };
        from + up + 0.003 * normal(rng)
    });
    shape.calls = Box::new(each("Trainer.save", period, period - begin, lasts));
    shape
}

fn load(rng: &mut Rng) -> Shape {
    let (from, to) = (between(rng, 0.03, 0.3), between(rng, 0.35, 0.69));
    let lasts = log_between(rng, 10.0, 600.0);
    shape(rng, 3600.0, 0.0, move |now, rng| {
        from + (to - from) * ((now - 60.0) / lasts).clamp(0.0, 1.0) + 0.002 * normal(rng)
    })
}

fn turns(rng: &mut Rng) -> Shape {
    let (from, top) = (between(rng, 0.2, 0.6), between(rng, 0.8, 0.97));
    let lasts = log_between(rng, 30.0, 600.0);
    shape(rng, 60.0 + lasts + 600.0, 60.0, move |now, rng| {
        let up = ((now - 60.0) / lasts).max(0.0);
        let level = if up > 1.0 {
            from
        } else {
            from + (top - from) * up
        };
        level + 0.002 * normal(rng)
    })
}

fn uneven_ramp(rng: &mut Rng) -> Shape {
    let (from, flat) = (between(rng, 0.15, 0.75), between(rng, 20.0, 600.0));
    let lasts = log_between(rng, 15.0, 7200.0);
    let (mut level, mut rate, mut until) = (from, 0.0, flat);
    shape(rng, flat + 6.0 * lasts + 60.0, flat, move |now, rng| {
        if now >= until {
            until = now + between(rng, 0.02, 0.1) * lasts;
            rate = (1.0 - from) / lasts * (0.5 * normal(rng)).exp();
            if rng.f64() < 0.1 {
                rate = 0.0;
            }
        }
        level += rate;
        level + 0.003 * normal(rng)
    })
}

fn quickening(rng: &mut Rng) -> Shape {
    let (from, power) = (between(rng, 0.1, 0.6), between(rng, 1.3, 2.5));
    let lasts = log_between(rng, 25.0, 3600.0);
    shape(rng, 60.0 + 1.5 * lasts, 60.0, move |now, rng| {
        let part = ((now - 60.0) / lasts).max(0.0);
        from + (1.0 - from) * part.powf(power) + 0.002 * normal(rng)
    })
}

fn swing(rng: &mut Rng) -> Shape {
    let (up, down) = (between(rng, 5.0, 25.0), between(rng, 5.0, 40.0));
    let height = between(rng, 0.08, 0.3);
    let (count, from) = (between(rng, 8.0, 80.0), between(rng, 0.25, 0.65));
    let period = up + down;
    let growth = (1.0 - from - height) / (count * period);
    let mut shape = shape(rng, 1.5 * count * period, 0.0, move |now, rng| {
        let into = now % period;
        // Each move takes two seconds.
        let part = if into < down {
            1.0 - (into / 2.0).min(1.0)
        } else {
            ((into - down) / 2.0).min(1.0)
        };
        from + growth * now + height * part + 0.003 * normal(rng)
    });
    shape.calls = Box::new(each("WorkerDict.generate_sequences", period, down, up));
    shape
}

/// Saw-teeth that differ from one another: up over nine tenths, down in the rest.
fn uneven(period: f64, height: f64) -> impl FnMut(f64, &mut Rng) -> f64 {
    let (mut began, mut length, mut top) = (0.0, period, height);
    move |now, rng| {
        if now >= began + length {
            began += length;
            length = period * (1.0 + 0.25 * normal(rng)).clamp(0.4, 1.8);
            top = height * (1.0 + 0.12 * normal(rng)).clamp(0.6, 1.4);
        }
        let part = (now - began) / length;
        let up = if part < 0.9 {
            part / 0.9
        } else {
            (1.0 - part) / 0.1
        };
        top * up
    }
}

fn uneven_teeth(rng: &mut Rng) -> Shape {
    let (period, height) = (between(rng, 8.0, 90.0), between(rng, 0.06, 0.25));
    let (count, from) = (between(rng, 8.0, 60.0), between(rng, 0.3, 0.6));
    let growth = (1.0 - from - height) / (count * period);
    let mut tooth = uneven(period, height);
    shape(rng, 2.0 * count * period, 0.0, move |now, rng| {
        from + growth * now + tooth(now, rng) + 0.003 * normal(rng)
    })
}

fn many_sizes(rng: &mut Rng) -> Shape {
    let period = between(rng, 4.0, 60.0);
    let (count, from) = (between(rng, 15.0, 200.0), between(rng, 0.2, 0.6));
    let mean = (1.0 - from) / count;
    let (mut level, mut to, mut next) = (from, from, period);
    let mut shape = shape(rng, 3.0 * count * period, 0.0, move |now, rng| {
        if now >= next {
            next = now + period * (1.0 + 0.15 * normal(rng)).max(0.3);
            to += mean * (0.7 * normal(rng) - 0.245).exp();
        }
        level += 0.4 * (to - level);
        level + 0.002 * normal(rng)
    });
    shape.calls = Box::new(each("TaskRunner.compute_reward", period, 0.0, 0.7 * period));
    shape
}

fn checkpoint(rng: &mut Rng) -> Shape {
    let (step, every) = (between(rng, 8.0, 30.0), between(rng, 10.0, 40.0).floor());
    let (small, height) = (between(rng, 0.01, 0.05), between(rng, 0.1, 0.3));
    let (count, lasts) = (between(rng, 4.0, 10.0).floor(), between(rng, 6.0, 25.0));
    let from = between(rng, 0.3, 0.85 - height - small);
    let period = step * every + lasts;
    let growth = (1.0 - from - height) / (count * period);
    let mut shape = shape(rng, 1.6 * count * period, 0.0, move |now, rng| {
        let into = now % period;
        let up = if into < step * every {
            small * (into / step).fract()
        } else {
            height * ((into - step * every) / lasts * 2.0).min(1.0)
        };
        from + growth * now + up + 0.003 * normal(rng)
    });
    shape.calls = Box::new(each("Trainer.save_checkpoint", period, step * every, lasts));
    shape
}

fn arenas(rng: &mut Rng) -> Shape {
    let (chunk, from) = (between(rng, 0.008, 0.03), between(rng, 0.2, 0.6));
    let lasts = log_between(rng, 60.0, 7200.0);
    let pause = lasts * chunk / (1.0 - from);
    let (mut level, mut next) = (from, pause);
    shape(rng, 2.5 * lasts, 0.0, move |now, rng| {
        if now >= next {
            next = now + pause * (1.0 + 0.4 * normal(rng)).max(0.2);
            level += chunk;
        }
        level + 0.001 * normal(rng)
    })
}

fn waves(rng: &mut Rng) -> Shape {
    let (from, lasts) = (
        between(rng, 0.4, 0.8),
        log_between(rng, 1800.0, 6.0 * 3600.0),
    );
    let (wave, period) = (between(rng, 0.005, 0.03), between(rng, 300.0, 1800.0));
    shape(rng, 1.3 * lasts, 0.0, move |now, rng| {
        let up = wave * (TAU * now / period).sin();
        from + (1.0 - from) * now / lasts + up + 0.003 * normal(rng)
    })
}

fn two(rng: &mut Rng) -> Shape {
    let (period, height) = (between(rng, 10.0, 60.0), between(rng, 0.03, 0.12));
    let from = between(rng, 0.3, 0.6);
    let (flat, lasts) = (between(rng, 120.0, 900.0), log_between(rng, 60.0, 3600.0));
    shape(rng, flat + 1.3 * lasts, flat, move |now, rng| {
        let tooth = height * (now / period).fract();
        let other = (1.0 - from - height) * ((now - flat) / lasts).max(0.0);
        from + tooth + other + 0.003 * normal(rng)
    })
}

fn week(rng: &mut Rng) -> Shape {
    let middle = between(rng, 0.915, 0.925);
    let (mut off, mut far) = (0.0, 0.0);
    shape(rng, 7.0 * 86_400.0, 0.0, move |now, rng| {
        off = 0.95 * off + 0.0015 * normal(rng);
        far = 0.999 * far + 0.0003 * normal(rng);
        // Once an hour something small is freed for 40 seconds.
        let dip = if now % 3600.0 < 40.0 { 0.03 } else { 0.0 };
        middle + off + far - dip
    })
}

fn steady_swing(rng: &mut Rng) -> Shape {
    let (up, down) = (between(rng, 5.0, 25.0), between(rng, 5.0, 60.0));
    let (height, top) = (between(rng, 0.1, 0.5), between(rng, 0.85, 0.94));
    let period = up + down;
    shape(rng, 5.0 * 3600.0, 0.0, move |now, rng| {
        let into = now % period;
        let part = if into < down {
            1.0 - (into / 2.0).min(1.0)
        } else {
            ((into - down) / 2.0).min(1.0)
        };
        top - height * (1.0 - part) + 0.003 * normal(rng)
    })
}

fn evaluations(rng: &mut Rng) -> Shape {
    let (period, lasts) = (between(rng, 180.0, 1200.0), between(rng, 30.0, 120.0));
    let from = between(rng, 0.5, 0.62);
    let top = between(rng, 0.7, 0.9);
    let (mut height, mut number) = (top - from, 0.0);
    shape(rng, 5.0 * 3600.0, 0.0, move |now, rng| {
        if (now / period).floor() > number {
            number = (now / period).floor();
            height = (top - from) * (1.0 + 0.05 * normal(rng)).clamp(0.8, 1.1);
        }
        let into = now % period;
        // It grows more slowly the fuller it is, and is freed at once.
        let up = if into < lasts {
            height * (1.0 - (-4.0 * into / lasts).exp())
        } else {
            0.0
        };
        from + up + 0.003 * normal(rng)
    })
}

fn allocator(rng: &mut Rng) -> Shape {
    let (from, to) = (between(rng, 0.1, 0.4), between(rng, 0.72, 0.93));
    let (tau, chunk) = (log_between(rng, 60.0, 1800.0), between(rng, 0.005, 0.02));
    shape(rng, 5.0 * 3600.0, 0.0, move |now, rng| {
        let smooth = (to - from) * now / (now + tau);
        from + (smooth / chunk).floor() * chunk + 0.002 * normal(rng)
    })
}

fn jobs(rng: &mut Rng) -> Shape {
    let (idle, top) = (between(rng, 0.05, 0.2), between(rng, 0.5, 0.68));
    let (lasts, runs) = (log_between(rng, 20.0, 300.0), between(rng, 300.0, 1800.0));
    let period = 60.0 + lasts + runs;
    shape(rng, 5.0 * 3600.0, 0.0, move |now, rng| {
        let into = now % period;
        let part = ((into - 60.0) / lasts).clamp(0.0, 1.0);
        idle + (top - idle) * part + 0.003 * normal(rng)
    })
}

fn level_teeth(rng: &mut Rng) -> Shape {
    let (period, height) = (between(rng, 8.0, 120.0), between(rng, 0.08, 0.3));
    // The highest tooth is 0.4 of a tooth above the usual one. It must fit too.
    let top = between(rng, 0.84, 0.9).min(0.975 - 0.4 * height);
    let mut tooth = uneven(period, height);
    shape(rng, 5.0 * 3600.0, 0.0, move |now, rng| {
        top - height + tooth(now, rng) + 0.003 * normal(rng)
    })
}

fn flushed(rng: &mut Rng) -> Shape {
    let (from, top) = (between(rng, 0.4, 0.6), between(rng, 0.75, 0.9));
    let period = between(rng, 1800.0, 5400.0);
    shape(rng, 6.0 * 3600.0, 0.0, move |now, rng| {
        from + (top - from) * (now / period).fract() + 0.003 * normal(rng)
    })
}

fn burst(rng: &mut Rng) -> Shape {
    let (from, top) = (between(rng, 0.3, 0.7), between(rng, 0.82, 0.96));
    let (lasts, stays) = (log_between(rng, 20.0, 400.0), between(rng, 0.0, 60.0));
    shape(
        rng,
        120.0 + lasts + stays + 900.0,
        120.0,
        move |now, rng| {
            let into = now - 120.0;
            let up = (into / lasts).clamp(0.0, 1.0);
            let back = if into > lasts + stays {
                ((into - lasts - stays) / 10.0).min(1.0)
            } else {
                0.0
            };
            from + (top - from) * (up - back).max(0.0) + 0.003 * normal(rng)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn healthy_shapes_never_reach_the_limit() {
        let healthy = FAMILIES.iter().filter(|one| one.end == End::Healthy);
        for family in healthy.filter(|one| !one.name.contains("week")) {
            for number in 0..40 {
                let mut shape = family.shape(number);
                let highest = (0..shape.seconds).map(|second| shape.level(second));
                let highest = highest.fold(0.0, f64::max);
                assert!(highest < 0.995, "{} {number}: {highest}", family.name);
            }
        }
    }
}
