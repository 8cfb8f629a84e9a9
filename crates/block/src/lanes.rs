//! The requests that wait for the device, and who of them is next, as a [`Description`] says.
//!
//! This decides and does nothing: no lock, no device, no task. All time is given by the caller.

use crate::scheduler::{Both, Description, Favours, Share, Side};
use base::{Nanos, Time};
use blockdev::{Op, Request};
use std::collections::BTreeMap;

/// Requests that share a queue: one lane a task, or one a side.
pub(crate) type LaneId = (Side, usize);

/// A request that waits.
pub(crate) struct Waiting {
    /// By which its owner knows it; a later one is larger.
    pub number: u64,
    pub request: Request,
    /// When it came.
    pub since: Time,
}

#[derive(Default)]
struct Lane {
    /// By number, which is the order of arrival.
    waiting: BTreeMap<u64, Waiting>,
    /// The lane with the smallest one is next.
    key: u64,
}

/// The lane that sends.
#[derive(Clone, Copy)]
struct Turn {
    lane: LaneId,
    began: Time,
    /// Service of the lane so far (`Share::Service`).
    key: u64,
    requests: u32,
    sectors: u64,
}

/// What to do now.
pub(crate) enum Pick {
    /// Send this one.
    Send(LaneId, Waiting),
    /// Nothing before this moment, unless something changes.
    At(Time),
    /// Nothing until something changes.
    Later,
}

/// How soon favoured requests follow each other: the mean of Linux's `__cfq_update_io_thinktime`,
/// in which each sample weighs an eighth.
#[derive(Default)]
struct Think {
    samples: u64,
    total: u64,
}

impl Think {
    fn add(&mut self, gap: u64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * gap) / 8;
    }
    fn is_longer_than(&self, span: Nanos) -> bool {
        self.samples > 80 && (self.total + 128) / self.samples > span.0
    }
}

/// All lanes of a device.
pub(crate) struct Lanes {
    what: &'static Description,
    /// Commands that the device takes at once.
    depth: usize,
    lanes: BTreeMap<LaneId, Lane>,
    turn: Option<Turn>,
    waiting: Both<usize>,
    at_device: Both<usize>,
    /// When the last favoured request ended.
    last_end: Time,
    /// When a favoured request last ended that had taken too long.
    delayed: Option<Time>,
    think: Think,
    /// Times in a row that the favoured side was chosen over a waiting other side.
    in_a_row: u32,
    /// The service from which a lane begins that had nothing to send (`Share::Service`): it never
    /// falls behind what was chosen, or what a lane had at the end of its turn and left.
    clock: u64,
    /// Where the last request ended.
    position: u64,
}

impl Lanes {
    pub fn new(what: &'static Description, depth: usize) -> Lanes {
        Lanes {
            what,
            depth,
            lanes: BTreeMap::new(),
            turn: None,
            waiting: [0; 2],
            at_device: [0; 2],
            last_end: Time(0),
            delayed: None,
            think: Think::default(),
            in_a_row: 0,
            clock: 0,
            position: 0,
        }
    }

    /// The lane of a request of `task`.
    pub fn lane_of(&self, request: &Request, background: bool, task: usize) -> LaneId {
        let read = matches!(request.op, Op::Read { .. });
        match self.what.favours {
            Favours::Awaited if background => (Side::Other, 0),
            Favours::Awaited => (Side::Favoured, task),
            Favours::Reads if read => (Side::Favoured, 0),
            Favours::Reads => (Side::Other, 0),
        }
    }

    /// True if this side has as many requests as may wait.
    pub fn is_full(&self, side: Side) -> bool {
        self.waiting[side as usize] >= self.what.waiting_max
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == [0; 2]
    }

    /// A request begins to wait.
    pub fn add(&mut self, now: Time, id: LaneId, waiting: Waiting) {
        let side = id.0 as usize;
        if id.0 == Side::Favoured && self.waiting[side] == 0 && self.at_device[side] == 0 {
            let gap = now.0.saturating_sub(self.last_end.0);
            self.think.add(gap.min(2 * self.what.idle.0));
        }
        // elevator-E4: a turn sends one request at least, however many favoured ones come.
        let other = |turn: Turn| turn.lane.0 == Side::Other && turn.requests > 0;
        let preempts = self.what.preempts && id.0 == Side::Favoured && self.turn.is_some_and(other);
        if preempts {
            self.end_turn(now);
        }
        let is_new = self.lanes.get(&id).is_none_or(|l| l.waiting.is_empty());
        let busy = self.lanes.len() as u64;
        let lane = self.lanes.entry(id).or_default();
        if is_new {
            lane.key = match self.what.share {
                Share::Time(offset) => now.0 + busy * offset[side].0,
                Share::Service(_) => self.clock,
                Share::Favoured { .. } => 0,
            };
        }
        if preempts {
            lane.key = 0;
        }
        lane.waiting.insert(waiting.number, waiting);
        self.waiting[side] += 1;
    }

    /// Who is next, if the device has room.
    pub fn pick(&mut self, now: Time) -> Pick {
        if self.is_empty() {
            return Pick::Later;
        }
        if self.turn.is_some_and(|turn| self.is_over(turn, now)) {
            self.end_turn(now);
        }
        let lane = match self.turn {
            Some(turn) if self.lanes.contains_key(&turn.lane) => turn.lane,
            turn => {
                if let Some(Turn { lane, .. }) = turn
                    && let Some(pick) = self.keep_for_next(lane.0, now)
                {
                    return pick;
                }
                self.end_turn(now);
                let lane = self.choose();
                self.turn = Some(Turn {
                    lane,
                    began: now,
                    key: self.clock,
                    requests: 0,
                    sectors: 0,
                });
                lane
            }
        };
        match lane.0 == Side::Other && self.other_must_wait(now) {
            true => Pick::Later,
            false => self.take(lane, now),
        }
    }

    /// One that waits, whoever is next.
    pub fn take_any(&mut self) -> Option<(LaneId, Waiting)> {
        let id = *self.lanes.keys().next()?;
        let oldest = self.lanes[&id].waiting.keys().next().copied();
        let waiting = self.remove(id, oldest?);
        Some((id, waiting))
    }

    /// Removes those that share a sector with `request`, in the order of their arrival.
    pub fn take_shared(&mut self, request: &Request) -> Vec<Waiting> {
        let spans = request.spans();
        let shares = |waiting: &Waiting| {
            let own = waiting.request.spans();
            let meets = |a: &(base::Lba, u64), b: &(base::Lba, u64)| {
                a.0.0 < b.0.0 + b.1 && b.0.0 < a.0.0 + a.1
            };
            own.iter().any(|a| spans.iter().any(|b| meets(a, b)))
        };
        let mut found: Vec<(u64, LaneId)> = Vec::new();
        for (id, lane) in &self.lanes {
            let meeting = lane.waiting.values().filter(|w| shares(w));
            found.extend(meeting.map(|w| (w.number, *id)));
        }
        found.sort_unstable();
        let take = |(number, id)| self.remove(id, number);
        found.into_iter().map(take).collect()
    }

    /// A request goes to the device.
    pub fn sent(&mut self, side: Side) {
        self.at_device[side as usize] += 1;
    }

    /// A request that was sent has ended; it had come at `since`.
    pub fn ended(&mut self, now: Time, side: Side, since: Time) {
        self.at_device[side as usize] -= 1;
        if side == Side::Favoured {
            self.last_end = now;
            if now - since > self.what.expire[side as usize] {
                self.delayed = Some(now);
            }
        }
    }

    fn is_over(&self, turn: Turn, now: Time) -> bool {
        let side = turn.lane.0 as usize;
        (now - turn.began).0 >= self.what.slice[side].0
            || turn.requests >= self.what.requests[side]
            || turn.sectors >= self.what.sectors
    }

    /// The lane that had its turn has nothing to send: whether the device is kept for the next
    /// favoured request.
    fn keep_for_next(&self, side: Side, now: Time) -> Option<Pick> {
        let favoured = Side::Favoured as usize;
        if side != Side::Favoured || self.waiting[favoured] > 0 {
            return None;
        }
        let idles = self.depth < self.what.idle_below && !self.think.is_longer_than(self.what.idle);
        let until = self.last_end + self.what.idle;
        match self.at_device[favoured] > 0 {
            true if self.what.alone || idles => Some(Pick::Later),
            false if idles && now < until => Some(Pick::At(until)),
            _ => None,
        }
    }

    fn other_must_wait(&self, now: Time) -> bool {
        let [favoured, other] = self.at_device;
        let grown = match (self.what.other_grows, self.delayed) {
            (Some(span), Some(delayed)) => (((now - delayed).0 / span.0) as usize).max(1),
            _ => usize::MAX,
        };
        self.what.alone && favoured > 0 || other >= self.what.other_max.min(grown)
    }

    /// Some lane has something to send.
    fn choose(&mut self) -> LaneId {
        let least = self.lanes.iter().min_by_key(|(id, lane)| (lane.key, **id));
        let (least, key) = least
            .map(|(id, lane)| (*id, lane.key))
            .expect("something waits");
        let Share::Favoured { in_a_row } = self.what.share else {
            self.clock = self.clock.max(key);
            return least;
        };
        let [favoured, other] = self.waiting.map(|n| n > 0);
        if favoured && !(other && self.in_a_row >= in_a_row) {
            self.in_a_row += u32::from(other);
            return (Side::Favoured, 0);
        }
        self.in_a_row = 0;
        (Side::Other, 0)
    }

    fn end_turn(&mut self, now: Time) {
        let Some(turn) = self.turn.take() else { return };
        let side = turn.lane.0 as usize;
        let others = (self.lanes.len() as u64).saturating_sub(1);
        let key = match self.what.share {
            Share::Time(offset) => now.0 + others * offset[side].0,
            Share::Service(cost) => turn.key + turn.sectors * cost[side],
            Share::Favoured { .. } => 0,
        };
        match self.lanes.get_mut(&turn.lane) {
            Some(lane) => lane.key = key,
            None => self.clock = self.clock.max(key),
        }
    }

    /// The next request of the lane whose turn it is.
    fn take(&mut self, id: LaneId, now: Time) -> Pick {
        let begins = self.turn.is_some_and(|turn| turn.requests == 0);
        let lane = &self.lanes[&id];
        let oldest = lane.waiting.values().next().expect("it has requests");
        let expire = self.what.expire[id.0 as usize];
        let expired = begins && (now - oldest.since) >= expire;
        let start = |waiting: &&Waiting| waiting.request.spans().first().map_or(0, |s| s.0.0);
        let ahead = lane.waiting.values().filter(|w| start(w) >= self.position);
        let next = match expired {
            true => None,
            false => ahead.min_by_key(|w| (start(w), w.number)),
        };
        let number = next.unwrap_or(oldest).number;
        let waiting = self.remove(id, number);
        let spans = waiting.request.spans();
        let sectors: u64 = spans.iter().map(|s| s.1).sum();
        if let Some(turn) = &mut self.turn {
            turn.requests += 1;
            turn.sectors += sectors;
        }
        self.position = spans.last().map_or(0, |last| last.0.0 + last.1);
        Pick::Send(id, waiting)
    }

    fn remove(&mut self, id: LaneId, number: u64) -> Waiting {
        let lane = self.lanes.get_mut(&id).expect("a lane of the caller's");
        let waiting = lane.waiting.remove(&number).expect("it waits there");
        if lane.waiting.is_empty() {
            self.lanes.remove(&id);
        }
        self.waiting[id.0 as usize] -= 1;
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scheduler;
    use base::Lba;
    use blockdev::Class;

    const MS: u64 = 1_000_000;

    /// Lanes of a device that takes two commands at once, driven by hand.
    struct Bench {
        lanes: Lanes,
        next: u64,
    }

    impl Bench {
        fn new(scheduler: Scheduler) -> Bench {
            let what = crate::scheduler::describe(scheduler).expect("a scheduler");
            let lanes = Lanes::new(what, 2);
            Bench { lanes, next: 0 }
        }

        /// A request of one block comes; answers its number.
        fn comes(&mut self, at: u64, request: Request, background: bool, task: usize) -> u64 {
            let number = self.next;
            self.next += 1;
            let lane = self.lanes.lane_of(&request, background, task);
            let since = Time(at);
            let waiting = Waiting {
                number,
                request,
                since,
            };
            self.lanes.add(Time(at), lane, waiting);
            number
        }

        fn write(&mut self, at: u64, block: u64, background: bool) -> u64 {
            let request = Request::write(Lba(block * 8), Class::Data, vec![0; 4096].into());
            self.comes(at, request, background, 1)
        }

        fn read(&mut self, at: u64, block: u64) -> u64 {
            self.comes(at, Request::read(Lba(block * 8), 8), false, 2)
        }

        /// Sends what is next and ends it at once.
        fn goes(&mut self, at: u64) -> Option<u64> {
            let Pick::Send((side, _), waiting) = self.lanes.pick(Time(at)) else {
                return None;
            };
            self.lanes.sent(side);
            self.lanes.ended(Time(at), side, waiting.since);
            Some(waiting.number)
        }
    }

    #[test]
    fn cfq_keeps_the_device_for_the_next_awaited_request_for_8_ms() {
        let mut bench = Bench::new(Scheduler::Cfq310);
        let back = bench.write(MS, 5, true);
        assert_eq!(bench.goes(MS), Some(back), "the device was free");
        let back = bench.write(MS, 6, true);
        let awaited = bench.write(MS, 9, false);
        assert_eq!(
            bench.goes(MS),
            Some(awaited),
            "it ends the turn of write-back"
        );
        assert!(matches!(bench.lanes.pick(Time(2 * MS)), Pick::At(Time(t)) if t == 6 * MS));
        let again = bench.write(3 * MS, 7, false);
        assert_eq!(bench.goes(3 * MS), Some(again));
        assert_eq!(bench.goes(8 * MS - 1), None);
        assert_eq!(bench.goes(8 * MS), Some(back));
    }

    #[test]
    fn cfq_does_not_idle_for_requests_that_come_slowly() {
        let mut bench = Bench::new(Scheduler::Cfq310);
        for n in 1..=4 {
            let awaited = bench.write(n * 20 * MS, n, false);
            assert_eq!(bench.goes(n * 20 * MS), Some(awaited));
        }
        let back = bench.write(81 * MS, 50, true);
        assert_eq!(bench.goes(81 * MS), Some(back), "20 ms lie between two");
    }

    #[test]
    fn cfq_sends_nothing_beside_what_is_awaited_and_gives_write_back_its_turn() {
        let mut bench = Bench::new(Scheduler::Cfq310);
        let mut sent = Vec::new();
        bench.write(0, 0, false);
        let back = bench.write(0, 900, true);
        for n in 0..400 {
            let now = n * MS;
            if let Pick::Send((side, _), waiting) = bench.lanes.pick(Time(now)) {
                bench.lanes.sent(side);
                sent.push((now, waiting.number));
                assert!(matches!(bench.lanes.pick(Time(now)), Pick::Later) || side == Side::Other);
                bench.write(now, n, false);
                bench.lanes.ended(Time(now), side, waiting.since);
            }
        }
        let (at, _) = sent
            .iter()
            .find(|(_, n)| *n == back)
            .expect("it had a turn");
        assert!((100 * MS..=200 * MS).contains(at), "after a slice: {at}");
        assert!(sent.len() > 390);
    }

    #[test]
    fn cfq_lets_write_back_fill_the_device_again_as_time_goes_by() {
        let mut bench = Bench::new(Scheduler::Cfq310);
        bench.write(0, 0, false);
        let Pick::Send((side, _), waiting) = bench.lanes.pick(Time(0)) else {
            panic!("it goes");
        };
        bench.lanes.sent(side);
        bench.lanes.ended(Time(126 * MS), side, waiting.since);
        for n in 1..4 {
            bench.write(126 * MS, n, true);
        }
        let sends = |bench: &mut Bench, at: u64| match bench.lanes.pick(Time(at)) {
            Pick::Send((side, _), _) => {
                bench.lanes.sent(side);
                true
            }
            _ => false,
        };
        assert!(sends(&mut bench, 140 * MS), "one is allowed");
        assert!(
            !sends(&mut bench, 141 * MS),
            "a sync took longer than 125 ms"
        );
        assert!(!sends(&mut bench, 325 * MS));
        assert!(sends(&mut bench, 326 * MS), "two, 200 ms later");
    }

    #[test]
    fn deadline_lets_reads_pass_twice_and_sends_16_in_order_of_address() {
        let mut bench = Bench::new(Scheduler::MqDeadline);
        let writes: Vec<u64> = (0..20)
            .map(|n| bench.write(0, 40 - n, n % 2 == 0))
            .collect();
        let mut reads: Vec<u64> = (0..40).map(|n| bench.read(0, 100 + n)).collect();
        let order: Vec<u64> = (0..60).filter_map(|_| bench.goes(1)).collect();
        let rest = reads.split_off(32);
        // The position is behind the reads: the first write is the oldest.
        let first = vec![writes[0]];
        assert_eq!(order[..32], reads, "two batches of 16");
        assert_eq!(order[32..33], first, "writes_starved");
        let batch = &order[32..48];
        assert!(batch.iter().all(|n| writes.contains(n)), "{order:?}");
        assert_eq!(order[48..56], rest);
        assert_eq!(order.len(), 60);
    }

    #[test]
    fn deadline_begins_a_batch_with_what_has_waited_too_long() {
        let mut bench = Bench::new(Scheduler::MqDeadline);
        let old = bench.write(0, 90, true);
        let new = bench.write(4_999 * MS, 10, false);
        assert_eq!(bench.goes(5_000 * MS), Some(old));
        assert_eq!(bench.goes(5_000 * MS), Some(new));
        let old = bench.write(6_000 * MS, 90, true);
        let new = bench.write(6_000 * MS, 20, false);
        assert_eq!(bench.goes(6_000 * MS), Some(new), "the next address");
        assert_eq!(bench.goes(6_000 * MS), Some(old));
    }

    #[test]
    fn bfq_gives_write_back_little_beside_a_task_that_is_at_it() {
        let mut bench = Bench::new(Scheduler::Bfq);
        let (mut awaited, mut back) = (0, 0);
        for n in 0..64 {
            bench.write(0, 1000 + n, true);
        }
        for n in 0..2000 {
            bench.write(n * MS, n, false);
            let sent = bench.goes(n * MS);
            awaited += u64::from(sent.is_some_and(|n| n >= 64));
            back += u64::from(sent.is_some_and(|n| n < 64));
        }
        assert!(back > 2 && awaited > 20 * back, "{awaited} and {back}");
    }
}
