//! The gate decides which epoch an operation is in: a counter per slot and shard, a switch that
//! waits for nothing, and a drain that waits for the operations inside an epoch.
//!
//! An operation loads RUNNING, raises the counter of that epoch, and stays if RUNNING still says
//! the same. A switch stores the next number. A drain of epoch e, which runs behind the switch,
//! reads each counter of e by an atomic that also writes (it adds 0):
//! - G1 an operation that raised a counter before the drain read it is counted, and waited for;
//! - G2 an operation that raises a counter after that reads what the drain wrote, so it sees the
//!   switch and goes to the next epoch: once every counter of e was 0 behind the switch, no
//!   operation is in e, and none will be;
//! - G3 an operation that leaves lowers its counter and then looks whether a drain is under way; a
//!   drain announces itself and then reads the counters: one of the two sees the other, so no
//!   wake-up is lost;
//! - G4 two epochs share a slot only if the first one was drained and committed before the second
//!   one opens ([`Plane`](super::Plane) postpones the switch until then). An operation that raises
//!   the counter of the old epoch late, and leaves again, costs the second one a wake-up and delays
//!   its drain for that moment, but leaves no wrong count.
//!
//! G1 to G3 need no more than acquire and release, because both sides write the counter. (An
//! operation's two loads and a plain load by the drain would need sequential consistency.) The code
//! is generic over its atomics, so that `loom` runs exactly this code (it/journal_gate.rs). The
//! only cache lines that all operations share are RUNNING and the count of drains, which operations
//! only read.
//!
//! JBD2 in Linux has at this point a state in which a new operation waits for those inside
//! (T_LOCKED). It would be a third kind of answer of [`Gate::pick`].

/// An atomic 64-bit number.
pub trait Word {
    /// With this value.
    fn new(value: u64) -> Self;
    /// Loads (acquire).
    fn load(&self) -> u64;
    /// Stores (release).
    fn store(&self, value: u64);
    /// Adds, and answers what it was (acquire and release).
    fn add(&self, n: u64) -> u64;
    /// Subtracts, and answers what it was (acquire and release).
    fn sub(&self, n: u64) -> u64;
}

/// The place where a drain waits.
pub trait Park {
    /// An empty place.
    fn new() -> Self;
    /// Waits until `ready`, which is asked again after each [`Park::wake`]; between an answer and
    /// the wait no wake-up is lost.
    fn wait(&self, ready: impl FnMut() -> bool);
    /// Wakes all.
    fn wake(&self);
    /// Wakes all without a lock; a task that is about to wait may miss it.
    fn wake_unlocked(&self);
}

/// The atomics and the waiting that the gate is built on.
pub trait World {
    /// Its atomics.
    type Word: Word;
    /// Its waiting.
    type Park: Park;
}

/// A value alone on its cache lines (two, because processors fetch them in pairs).
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// RUNNING, and how many operations are in each epoch. `K`: epochs at a time.
pub struct Gate<W: World, const K: usize> {
    running: Padded<W::Word>,
    /// Tasks in [`Gate::drain`].
    drains: Padded<W::Word>,
    shards: Vec<Padded<[W::Word; K]>>,
    park: W::Park,
}

impl<W: World, const K: usize> Gate<W, K> {
    /// A gate with no operation inside; epoch `first` runs.
    pub fn new(first: u64, shards: usize) -> Gate<W, K> {
        let zeros = || Padded(std::array::from_fn(|_| W::Word::new(0)));
        Gate {
            running: Padded(W::Word::new(first)),
            drains: Padded(W::Word::new(0)),
            shards: (0..shards.max(1)).map(|_| zeros()).collect(),
            park: W::Park::new(),
        }
    }

    /// The epoch that new operations go to.
    pub fn running(&self) -> u64 {
        self.running.0.load()
    }

    /// The count of operations in the epoch, in a slot that epochs share (G4).
    fn count(&self, epoch: u64, shard: usize) -> &W::Word {
        let slots = &self.shards[shard % self.shards.len()].0;
        &slots[(epoch % K as u64) as usize]
    }

    /// Lets an operation in, and answers its epoch. The caller passes both `shard` and the epoch to
    /// [`Gate::leave`].
    pub fn pick(&self, shard: usize) -> u64 {
        loop {
            let epoch = self.running();
            self.count(epoch, shard).add(1);
            if self.running() == epoch {
                return epoch;
            }
            // Switched in between. The next round can fail only if it happens again.
            self.leave(epoch, shard);
        }
    }

    /// An operation leaves.
    pub fn leave(&self, epoch: u64, shard: usize) {
        let before = self.count(epoch, shard).sub(1);
        debug_assert!(before > 0, "G1: somebody leaves epoch {epoch} twice");
        if before == 1 && self.drains.0.load() > 0 {
            self.park.wake();
        }
    }

    /// Opens the epoch behind `running`, which must be the running one: the caller makes sure that
    /// no other task switches.
    pub fn switch(&self, running: u64) {
        debug_assert_eq!(self.running(), running, "G2: two switches at a time");
        self.running.0.store(running + 1);
    }

    /// True if no operation is in `epoch` (and, if it does not run any more, none will be).
    pub fn is_empty(&self, epoch: u64) -> bool {
        (0..self.shards.len()).all(|shard| self.count(epoch, shard).add(0) == 0)
    }

    /// Waits until no operation is in `epoch`, which does not run any more, or until `broken`. True
    /// if it was empty at once.
    pub fn drain(&self, epoch: u64, mut broken: impl FnMut() -> bool) -> bool {
        assert!(
            self.running() > epoch,
            "G2: epoch {epoch} is drained while it runs"
        );
        if self.is_empty(epoch) {
            return true;
        }
        self.drains.0.add(1);
        self.park.wait(|| self.is_empty(epoch) || broken());
        self.drains.0.sub(1);
        false
    }

    /// Makes all waiting tasks look again; takes no lock.
    pub fn wake_unlocked(&self) {
        self.park.wake_unlocked();
    }
}
