//! I/O schedulers as data: which requests go to the device first, and for how long.
//!
//! Two sides compete for a device. The *favoured* side is what a task waits for; the *other* side
//! can wait: write-back that nobody waits for. A scheduler is a [`Description`] with the defaults
//! of Linux; `lanes.rs` follows any of them, and `elevator.rs` sends what that picks. What Linux
//! calls by a name stands in brackets; docs/design/scheduler.md tells what is left out.

use base::Nanos;
use blockdev::Scheduler;

/// The sides that compete for a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Side {
    Favoured,
    Other,
}

/// A value for each [`Side`].
pub(crate) type Both<T> = [T; 2];

/// What is favoured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Favours {
    /// What a task waits for (`REQ_SYNC`, and reads); each task has a lane of its own.
    Awaited,
    /// Reads; all reads share a lane, and so do all writes, awaited or not.
    Reads,
}

/// Who is next when a turn is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// The lane whose key is the smallest. A key is the time of its end of turn (or of its first
    /// request), plus this much for each other lane that has something to send.
    Time(Both<Nanos>),
    /// The lane with the least service, where a sector costs so much.
    Service(Both<u64>),
    /// The favoured side, but once it has been chosen so often in a row while the other one had
    /// something to send, the other.
    Favoured { in_a_row: u32 },
}

/// A scheduler. A turn is the time for which one lane sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Description {
    pub favours: Favours,
    pub share: Share,
    /// The longest turn.
    pub slice: Both<Nanos>,
    /// Most requests of a turn.
    pub requests: Both<u32>,
    /// Most sectors of a turn.
    pub sectors: u64,
    /// A turn begins with the oldest request if that has waited for so long, and otherwise with the
    /// next address.
    pub expire: Both<Nanos>,
    /// For so long after the end of a favoured request the device is kept for the next one, unless
    /// they come more slowly than that.
    pub idle: Nanos,
    /// A device that takes so many commands at once is kept for nobody.
    pub idle_below: usize,
    /// The other side sends nothing while a favoured request is at the device.
    pub alone: bool,
    /// A favoured request that arrives ends a turn of the other side that has sent something.
    pub preempts: bool,
    /// Most requests of the other side at the device.
    pub other_max: usize,
    /// The same, but one for each such span since a favoured request last took longer than its
    /// `expire`, and at least one.
    pub other_grows: Option<Nanos>,
    /// Requests of a side that may wait; whoever has one more waits until there is room
    /// (`nr_requests`).
    pub waiting_max: usize,
}

const ENDLESS: Nanos = Nanos(u64::MAX);

/// `block/cfq-iosched.c` of Linux 3.10, `low_latency` on.
const CFQ_310: Description = Description {
    favours: Favours::Awaited,
    // `cfq_slice_offset`: the slice of the highest priority less the lane's own. Synchronous: 180
    // ms less 100; asynchronous: 180 less 40.
    share: Share::Time([Nanos::from_millis(80), Nanos::from_millis(140)]),
    // `slice_sync`, `slice_async`.
    slice: [Nanos::from_millis(100), Nanos::from_millis(40)],
    // `cfq_prio_to_maxrq`: 2 * `slice_async_rq` (2) * 4 at the middle priority.
    requests: [u32::MAX, 16],
    sectors: u64::MAX,
    // `fifo_expire_sync`, `fifo_expire_async`.
    expire: [Nanos::from_millis(125), Nanos::from_millis(250)],
    // `slice_idle` is HZ / 125 jiffies: with the board's HZ of 200 that is one, which ends within 5
    // ms.
    idle: Nanos::from_millis(5),
    // `CFQ_HW_QUEUE_MIN`, for a device that does not rotate.
    idle_below: 5,
    // `cfq_may_dispatch`.
    alone: true,
    // `cfq_should_preempt`.
    preempts: true,
    // `quantum`.
    other_max: 8,
    // `cfq_may_dispatch`: one for each `slice_sync` since `last_delayed_sync`.
    other_grows: Some(Nanos::from_millis(100)),
    // `BLKDEV_MAX_RQ`, for each of sync and async.
    waiting_max: 128,
};

/// `block/mq-deadline.c` of Linux 6.x. It knows reads and writes, not who waits for them.
const MQ_DEADLINE: Description = Description {
    favours: Favours::Reads,
    // `writes_starved`.
    share: Share::Favoured { in_a_row: 2 },
    slice: [ENDLESS; 2],
    // `fifo_batch`.
    requests: [16; 2],
    sectors: u64::MAX,
    // `read_expire`, `write_expire`.
    expire: [Nanos::from_millis(500), Nanos::from_secs(5)],
    idle: Nanos(0),
    idle_below: 0,
    alone: false,
    preempts: false,
    other_max: usize::MAX,
    other_grows: None,
    // `nr_requests`, twice the 64 tags of an MMC host; `async_depth` is as many since 6.9.
    waiting_max: 128,
};

/// `block/bfq-iosched.c` of Linux 6.x, `low_latency` on, every task interactive.
const BFQ: Description = Description {
    favours: Favours::Awaited,
    // `bfq_wr_coeff` (30) raises the weight of an interactive task. `bfq_serv_to_charge` makes
    // asynchronous sectors dearer (`bfq_async_charge_factor`, 3) only where all weights are equal,
    // and beside a raised one they are not.
    share: Share::Service([1, 30]),
    // `timeout_sync`, for both.
    slice: [Nanos::from_millis(125); 2],
    requests: [u32::MAX; 2],
    // `bfq_default_max_budget`.
    sectors: 16 * 1024,
    // `fifo_expire_sync`, `fifo_expire_async`.
    expire: [Nanos::from_millis(125), Nanos::from_millis(250)],
    // `slice_idle`.
    idle: Nanos::from_millis(8),
    // `BFQ_HW_QUEUE_THRESHOLD`, for a device that does not rotate.
    idle_below: 4,
    alone: false,
    // `bfq_better_to_preempt`: of a raised weight over one that is not.
    preempts: true,
    other_max: usize::MAX,
    other_grows: None,
    waiting_max: 128,
};

/// `None` for [`Scheduler::None`], which has nothing to decide.
pub(crate) fn describe(scheduler: Scheduler) -> Option<&'static Description> {
    match scheduler {
        Scheduler::None => None,
        Scheduler::Cfq310 => Some(&CFQ_310),
        Scheduler::MqDeadline => Some(&MQ_DEADLINE),
        Scheduler::Bfq => Some(&BFQ),
    }
}

/// Requests of write-back that may be on the way at once. Without a scheduler it is one, because
/// nothing lets a sync pass what has been sent.
pub(crate) fn background_max(scheduler: Scheduler) -> usize {
    describe(scheduler).map_or(1, |what| what.waiting_max)
}
