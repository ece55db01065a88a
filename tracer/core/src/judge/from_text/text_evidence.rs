//! Holds everything that a set of texts says.

use super::{
    claim::{Text, TextMention, TextRemarks},
    claims::AllClaims,
};

/// The most mentions that are kept.
const MAX_MENTIONS: usize = 200_000;

/// Everything that a set of texts says.
#[derive(Debug, Default)]
pub struct TextEvidence {
    /// The texts, in the order in which they were read.
    pub texts: Vec<Text>,
    /// What they say about deaths.
    pub claims: AllClaims,
    /// What else they say.
    pub remarks: TextRemarks,
    /// What they say of processes and nodes that may be elsewhere; bounded.
    pub mentions: Vec<TextMention>,
}

impl TextEvidence {
    /// Keeps a mention, unless there are too many.
    pub fn mention(&mut self, mention: TextMention) {
        if self.mentions.len() < MAX_MENTIONS {
            self.mentions.push(mention);
        }
    }
}
