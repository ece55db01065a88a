//! Keeps which lines asked the kernel for small ranges, until the heap has grown by as much.
//!
//! Such ranges are arenas of small objects.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::reading::same_line;
use crate::read::Stack;

/// How long a claim stands. Memory that is touched later is touched by others.
const STANDS: Duration = Duration::from_secs(2);
/// How many claims are kept.
const MOST: usize = 64;

/// The claims, the oldest first.
#[derive(Default)]
pub(super) struct Claims(VecDeque<Claim>);

struct Claim {
    stack: Stack,
    bytes: u64,
    until: Instant,
}

impl Claims {
    /// Adds a claim: a line asked for `bytes`.
    pub(super) fn add(&mut self, stack: Stack, bytes: u64, now: Instant) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        let until = now + STANDS;
        self.0.push_back(Claim {
            stack,
            bytes,
            until,
        });
    }

    /// Reduces a line's claims by growth that was recorded in another way.
    pub(super) fn recorded_otherwise(&mut self, stack: &Stack, mut grown: u64) {
        for claim in self
            .0
            .iter_mut()
            .filter(|claim| same_line(&claim.stack, stack))
        {
            let its = grown.min(claim.bytes);
            claim.bytes -= its;
            grown -= its;
        }
    }

    /// Assigns `grown` to the lines that claimed it, as far as the claims go.
    pub(super) fn pay(&mut self, mut grown: u64, now: Instant) -> Vec<(Stack, u64)> {
        let mut paid = Vec::new();
        while let Some(first) = self.0.front_mut() {
            if first.until > now && grown > 0 {
                let its = grown.min(first.bytes);
                first.bytes -= its;
                grown -= its;
                paid.push((first.stack.clone(), its));
            }
            if first.until > now && first.bytes > 0 {
                break;
            }
            self.0.pop_front();
        }
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::{super::at_line as stack, *};

    #[test]
    fn first_claim_is_paid_first_and_claims_expire() {
        let mut claims = Claims::default();
        let now = Instant::now();
        claims.add(stack(1), 10, now);
        claims.add(stack(2), 10, now);
        assert_eq!(claims.pay(4, now), [(stack(1), 4)]);
        assert_eq!(claims.pay(12, now), [(stack(1), 6), (stack(2), 6)]);
        claims.add(stack(3), 10, now + STANDS);
        assert_eq!(claims.pay(4, now + STANDS), [(stack(3), 4)]);
        claims.add(stack(4), 10, now + STANDS);
        claims.recorded_otherwise(&stack(4), 4);
        assert_eq!(claims.pay(99, now + STANDS), [(stack(3), 6), (stack(4), 6)]);
        assert!(claims.pay(9, now + STANDS * 2).is_empty());
        assert!(claims.0.is_empty());
    }
}
