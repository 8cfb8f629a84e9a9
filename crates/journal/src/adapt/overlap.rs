//! How far a device does several non-volatile writes at once.

/// Share of a new sample in the running mean.
const NEW: f64 = 0.25;
/// What is left of the figure with each decision: a device that was found slow is tried again.
const FORGET: f64 = 0.9995;

/// Commands up to which hope decides: so many tags has the queue of an eMMC (JEDEC 5.1) or of SATA.
const HOPED: f64 = 32.0;

/// The share of a command by which each further one, sent at the same time, makes all of them take
/// longer: 1 where one follows the other, 0 where they overlap.
///
/// It begins at 0: what is hoped for is tried, and one sample tells; what is feared never would be.
/// But a trial must not cost seconds, so more commands than a short queue holds are taken to follow
/// one another until samples show that they do not, and that is not forgotten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlap {
    /// Forgotten slowly; for few commands.
    share: f64,
    /// As it was learnt; for many.
    learnt: f64,
    /// Most commands that were seen at the same time.
    most: f64,
    samples: u64,
}

impl Default for Overlap {
    fn default() -> Self {
        Overlap {
            share: 0.0,
            learnt: 1.0,
            most: 1.0,
            samples: 0,
        }
    }
}

impl Overlap {
    /// `commands` took `span` together where one takes `single`.
    pub fn observe(&mut self, commands: f64, span: f64, single: f64) {
        let share = ((span / single - 1.0) / (commands - 1.0)).clamp(0.0, 1.0);
        self.samples += 1;
        let new = NEW.max(1.0 / self.samples as f64);
        self.share += new * (share - self.share);
        self.learnt += new * (share - self.learnt);
        self.most = self.most.max(commands);
    }

    /// How many times as long as one `commands` take.
    pub fn times(&self, commands: f64) -> f64 {
        if commands <= HOPED {
            return 1.0 + self.share * (commands - 1.0).max(0.0);
        }
        let at_once = commands.min(self.most);
        commands / at_once * (1.0 + self.learnt * (at_once - 1.0))
    }

    /// A decision was made.
    pub fn forget(&mut self) {
        self.share *= FORGET;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_tells_what_a_device_is_like_and_is_forgotten_slowly() {
        let mut serial = Overlap::default();
        assert_eq!(serial.times(8.0), 1.0, "hoped for");
        serial.observe(8.0, 8e6, 1e6);
        assert_eq!(serial.times(8.0), 8.0);
        assert_eq!(serial.times(1.0), 1.0);
        (0..100).for_each(|_| serial.forget());
        assert!(serial.times(8.0) > 7.5, "{serial:?}");
        (0..10_000).for_each(|_| serial.forget());
        assert!(serial.times(8.0) < 1.1, "{serial:?}");
        let mut parallel = Overlap::default();
        parallel.observe(8.0, 1e6, 1e6);
        parallel.observe(8.0, 0.5e6, 1e6);
        assert_eq!(parallel.times(8.0), 1.0);
        parallel.observe(2.0, 2e6, 1e6);
        assert!((1.2..1.4).contains(&parallel.times(2.0)), "{parallel:?}");
    }
    #[test]
    fn what_is_hoped_for_is_not_tried_with_thousands_of_commands() {
        let mut overlap = Overlap::default();
        assert_eq!((overlap.times(32.0), overlap.times(3000.0)), (1.0, 3000.0));
        overlap.observe(8.0, 8e6, 1e6);
        (0..100_000).for_each(|_| overlap.forget());
        assert_eq!(overlap.times(3000.0), 3000.0, "after any time");
        let mut parallel = Overlap::default();
        parallel.observe(30.0, 1e6, 1e6);
        assert_eq!(parallel.times(3000.0), 100.0, "30 at a time");
    }
}
