//! Keeps the outcomes of requests until they are fetched.

use crate::{DevError, Ticket};
use std::collections::BTreeMap;

/// Outcomes by ticket. Each is fetched once.
pub(crate) struct Tickets<T> {
    next: u64,
    done: BTreeMap<u64, T>,
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Tickets {
            next: 0,
            done: BTreeMap::new(),
        }
    }
}

impl<T> Tickets<T> {
    /// Keeps an outcome until it is fetched.
    pub fn keep(&mut self, outcome: T) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.done.insert(ticket.0, outcome);
        ticket
    }

    /// The outcome of `ticket`, which stays kept.
    pub fn look(&self, ticket: Ticket) -> Option<&T> {
        self.done.get(&ticket.0)
    }

    /// The outcome of `ticket`.
    pub fn fetch(&mut self, ticket: Ticket) -> Result<T, DevError> {
        let why = || format!("{ticket:?} was never submitted, or was waited for before");
        self.done
            .remove(&ticket.0)
            .ok_or_else(|| DevError::misuse(None, why()))
    }
}
