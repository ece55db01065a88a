//! Holds everything that a set of texts says.

use super::{
    claim::{Text, TextMention, TextRemarks},
    claims::AllClaims,
};

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
