//! Bounds how many records a process, a user and all users may cause in a period.
//!
//! So nobody can fill the ring, or the recording. Two CPUs may count one record only once, so a
//! budget is met about, not exactly.

use aya_ebpf::maps::{Array, HashMap};
use raytrace_ebpf::records::Spent;

/// The part of a user's budget that no other user can take.
const FIRST: u32 = 64;

/// The records that users have caused, and the most that each and all may cause in a period of
/// `1 << shift` ns.
pub(crate) struct Users<'a> {
    pub(crate) each: &'a HashMap<u32, Spent>,
    pub(crate) all: &'a Array<Spent>,
    pub(crate) most_of_each: u32,
    pub(crate) most_of_all: u32,
    pub(crate) shift: u32,
}

impl Users<'_> {
    /// Whether this user and all users have room for one more record. If `own` is false, the
    /// process has none, and the record is counted as over.
    ///
    /// The first records of a user, 1 in [`FIRST`] of its own budget, have room whatever others do.
    #[inline(always)]
    pub(crate) fn take(&self, uid: u32, now: u64, own: bool) -> bool {
        if self.each.get_ptr(uid).is_none() {
            // If the map is full, this user has no budget of its own.
            let _ = self.each.insert(uid, Spent::NONE, 1);
        }
        let of_user = self.each.get_ptr_mut(uid);
        let Some(all) = self.all.get_ptr_mut(0) else {
            return true;
        };
        // SAFETY: the pointers are to entries of maps.
        let (all, mut of_user) = unsafe { (&mut *all, of_user.map(|spent| &mut *spent)) };
        let period = (now >> self.shift) as u32;
        let own = own
            && of_user
                .as_deref_mut()
                .is_none_or(|spent| take(spent, period, self.most_of_each));
        let is_first = of_user
            .as_deref()
            .is_some_and(|spent| spent.sent <= self.most_of_each / FIRST);
        let sends = own && (take(all, period, self.most_of_all) || is_first);
        if !sends {
            of_user.unwrap_or(all).over += 1;
        }
        sends
    }
}

/// Takes one of the records of this period, if there is one left.
#[inline(always)]
pub(crate) fn take(spent: &mut Spent, period: u32, most: u32) -> bool {
    if spent.period != period {
        spent.period = period;
        spent.sent = 0;
    }
    spent.sent += 1;
    spent.sent <= most
}
