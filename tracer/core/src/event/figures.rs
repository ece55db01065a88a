//! Declares the figures of a memory sample once, for all that stores, reads or exports them.

use crate::ids::Bytes;

/// A sample of memory as a list of its figures.
pub trait Figures: Default {
    /// The name of each figure, as its column in a recording, and whether every sample has it.
    const COLUMNS: &'static [(&'static str, bool)];

    /// Passes on each figure, in the order of the columns.
    ///
    /// # Errors
    ///
    /// The first error that `take` returns.
    fn each<E>(
        &self,
        take: impl FnMut(&'static str, Option<u64>) -> Result<(), E>,
    ) -> Result<(), E>;

    /// Makes a sample of its figures, which `next` returns in the order of the columns.
    ///
    /// # Errors
    ///
    /// The first error that `next` returns.
    fn read<E>(next: impl FnMut() -> Result<Option<u64>, E>) -> Result<Self, E>;
}

/// A type of figures.
pub(super) trait Figure {
    /// Whether every sample has it.
    const REQUIRED: bool;

    fn get(&self) -> Option<u64>;
    fn of(value: Option<u64>) -> Self;
}

impl Figure for Bytes {
    const REQUIRED: bool = true;

    fn get(&self) -> Option<u64> {
        Some(self.0)
    }

    fn of(value: Option<u64>) -> Self {
        Self(value.unwrap_or_default())
    }
}

impl Figure for Option<Bytes> {
    const REQUIRED: bool = false;

    fn get(&self) -> Option<u64> {
        self.map(|bytes| bytes.0)
    }

    fn of(value: Option<u64>) -> Self {
        value.map(Bytes)
    }
}

impl Figure for Option<u64> {
    const REQUIRED: bool = false;

    fn get(&self) -> Option<u64> {
        *self
    }

    fn of(value: Option<u64>) -> Self {
        value
    }
}

/// Whether every sample has the figure that a function takes from it.
pub(super) const fn is_required<T, F: Figure>(_: fn(&T) -> &F) -> bool {
    F::REQUIRED
}

/// Lists the figures of a type by its fields, each with the name of its column where that differs.
/// New ones come last. Files without a column have no figure there.
macro_rules! figures {
    ($of:ident: $($field:ident $(as $name:literal)?),*) => {
        impl Figures for $of {
            const COLUMNS: &'static [(&'static str, bool)] =
                &[$((figures!(@ $field $($name)?), is_required(|it: &Self| &it.$field))),*];

            fn each<E>(
                &self,
                mut take: impl FnMut(&'static str, Option<u64>) -> Result<(), E>,
            ) -> Result<(), E> {
                $(take(figures!(@ $field $($name)?), self.$field.get())?;)*
                Ok(())
            }

            fn read<E>(mut next: impl FnMut() -> Result<Option<u64>, E>) -> Result<Self, E> {
                let mut read = Self::default();
                $(read.$field = Figure::of(next()?);)*
                Ok(read)
            }
        }
    };
    (@ $field:ident $name:literal) => {
        $name
    };
    (@ $field:ident) => {
        stringify!($field)
    };
}
pub(super) use figures;
