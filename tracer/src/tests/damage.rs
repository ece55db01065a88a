//! Damages texts for tests.
//!
//! It cuts and shuffles them, flips bytes, drops lines, and mixes two texts line by line.

/// A small random number generator (xorshift64*), so that every run has the same mutations.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }
}

pub(crate) fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

pub(crate) fn cut(text: &[u8], random: &mut Random) -> Vec<u8> {
    let from = random.below(text.len());
    let to = from + random.below(text.len() - from + 1);
    text[from..to].to_vec()
}

pub(crate) fn shuffle(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines = lines(text);
    for at in (1..lines.len()).rev() {
        lines.swap(at, random.below(at + 1));
    }
    lines.join(&b'\n')
}

pub(crate) fn flip(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(text.len());
        if let Some(byte) = text.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
    }
    text
}

pub(crate) fn drop_lines(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines = lines(text);
    lines.retain(|_| random.below(4) > 0);
    lines.join(&b'\n')
}

/// Interleaves the lines of two texts at random, each in its own order.
pub(crate) fn interleave(one: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut one, mut other) = (
        lines(one).into_iter().peekable(),
        lines(other).into_iter().peekable(),
    );
    let mut mixed = Vec::new();
    while one.peek().is_some() || other.peek().is_some() {
        let source = if random.below(2) == 0 {
            &mut one
        } else {
            &mut other
        };
        for _ in 0..=random.below(4) {
            mixed.extend(source.next());
        }
    }
    mixed.join(&b'\n')
}

/// Damages `text` in one of these ways, at random.
pub(crate) fn any(text: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    match random.below(5) {
        0 => cut(text, random),
        1 => shuffle(text, random),
        2 => flip(text, random),
        3 => drop_lines(text, random),
        _ => interleave(text, other, random),
    }
}
