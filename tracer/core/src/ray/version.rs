//! Defines Ray's version as far as behaviour depends on it: the major and minor number.

/// Major and minor number, compared in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    /// Parses the version in `2.60.0`, `2.10.0rc1`, `3.0.0.dev0`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor: String = parts
            .next()?
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        Some(Self(major, minor.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_numbers_are_compared_as_numbers() {
        assert_eq!(Version::parse("2.60.0"), Some(Version(2, 60)));
        assert_eq!(Version::parse("2.10.0rc1"), Some(Version(2, 10)));
        assert_eq!(Version::parse("2.9rc1"), Some(Version(2, 9)));
        assert!(Version::parse("2.9.3") < Version::parse("2.10.0"));
        assert_eq!(Version::parse("nightly"), None);
    }
}
