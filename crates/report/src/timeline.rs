//! The time line of runs as a trace of Chrome's format, which ui.perfetto.dev and chrome://tracing
//! open: each run is a process; its syncs, tasks, locks, requests, flushes and chips are tracks of
//! spans in it. Equal runs give equal bytes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A span of virtual time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Span {
    /// What it was, in words.
    pub name: String,
    /// Its beginning, nanoseconds from that of the measured part.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

/// A row of spans.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Track {
    /// Whose.
    pub name: String,
    /// They, in any order.
    pub spans: Vec<Span>,
}

/// What happened in the measured part of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// Calls of fsync and fdatasync, from call to return.
    pub syncs: Vec<Span>,
    /// Commands of the device but flushes, from submission until a task has learnt of the end.
    pub commands: Vec<Span>,
    /// Flushes, in the same way.
    pub flushes: Vec<Span>,
    /// What each task did: on a core, or what it waited for.
    pub tasks: Vec<Track>,
    /// Who waited for each lock.
    pub locks: Vec<Track>,
    /// Programs and erases of each die.
    pub chips: Vec<Track>,
}

impl Timeline {
    /// Its groups of tracks, from the caller down to the cells: the word of each, and its tracks.
    fn groups(&self) -> [(&'static str, Vec<Named<'_>>); 6] {
        [
            ("sync", vec![("", &self.syncs[..])]),
            ("task", named(&self.tasks)),
            ("lock", named(&self.locks)),
            ("request", vec![("", &self.commands[..])]),
            ("flush", vec![("", &self.flushes[..])]),
            ("chip", named(&self.chips)),
        ]
    }
}

/// A track: its name and its spans.
type Named<'a> = (&'a str, &'a [Span]);

fn named(tracks: &[Track]) -> Vec<Named<'_>> {
    let spans = tracks.iter();
    spans
        .map(|track| (track.name.as_str(), &track.spans[..]))
        .collect()
}

/// Spans that overlap stand in lanes of their own.
struct Lanes {
    /// The end of the last span in each.
    ends: Vec<u64>,
}

impl Lanes {
    /// The first lane that is free at the beginning of `span`.
    fn place(&mut self, span: &Span) -> usize {
        let free = self.ends.iter().position(|end| *end <= span.start_ns);
        let lane = free.unwrap_or(self.ends.len());
        match self.ends.get_mut(lane) {
            Some(end) => *end = span.end_ns,
            None => self.ends.push(span.end_ns),
        }
        lane
    }
}

fn micros(ns: u64) -> Value {
    json!(ns as f64 / 1000.0)
}

/// The trace of these runs, by their names, as JSON.
pub fn chrome_trace(runs: &[(String, Timeline)]) -> String {
    let mut events = Vec::new();
    for (n, (name, timeline)) in runs.iter().enumerate() {
        let pid = n + 1;
        events.push(json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}));
        let mut next = 1;
        for (word, tracks) in timeline.groups() {
            for (name, spans) in tracks {
                next = track(&mut events, (pid, next), word, name, spans);
            }
        }
    }
    let whole = json!({"displayTimeUnit": "ns", "traceEvents": events});
    format!("{whole}\n")
}

/// Adds a track, in as many lanes as its spans need, each a thread; lanes are numbered from `first`
/// on, so that a viewer shows them in this order. The number that follows.
fn track(
    events: &mut Vec<Value>,
    (pid, first): (usize, usize),
    word: &str,
    name: &str,
    spans: &[Span],
) -> usize {
    let mut lanes = Lanes { ends: Vec::new() };
    let mut sorted: Vec<&Span> = spans.iter().collect();
    sorted.sort_by_key(|span| (span.start_ns, span.end_ns));
    for span in sorted {
        let tid = first + lanes.place(span);
        events.push(json!({
            "ph": "X", "pid": pid, "tid": tid, "cat": word, "name": span.name,
            "ts": micros(span.start_ns), "dur": micros(span.end_ns - span.start_ns),
        }));
    }
    let all = lanes.ends.len();
    for lane in 0..all {
        let tid = first + lane;
        let name = match (name, all) {
            ("", _) => format!("{word} {}", lane + 1),
            (name, 1) => format!("{word} {name}"),
            (name, _) => format!("{word} {name}, {}", lane + 1),
        };
        events.push(json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}));
        events.push(json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}));
    }
    first + all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_overlap_stand_in_lanes_of_their_own() {
        let span = |name: &str, start_ns, end_ns| Span {
            name: name.into(),
            start_ns,
            end_ns,
        };
        let timeline = Timeline {
            syncs: vec![span("fsync", 0, 3000)],
            commands: vec![
                span("c", 2000, 2500),
                span("a", 0, 2000),
                span("b", 1000, 3000),
            ],
            flushes: vec![span("flush", 0, 1)],
            tasks: vec![Track {
                name: "kjournald".into(),
                spans: vec![span("sleeps", 0, 5)],
            }],
            ..Timeline::default()
        };
        let text = chrome_trace(&[("ext4/jbd2".into(), timeline)]);
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let lane = |name: &str| {
            let event = events.iter().find(|e| e["name"] == name).expect("there");
            event["tid"].as_u64().expect("a number")
        };
        assert_eq!([lane("a"), lane("b"), lane("c")], [3, 4, 3]);
        assert_eq!([lane("fsync"), lane("sleeps"), lane("flush")], [1, 2, 5]);
        let c = events.iter().find(|e| e["name"] == "c").expect("there");
        assert_eq!((&c["ts"], &c["dur"]), (&json!(2.0), &json!(0.5)));
        let names: Vec<&Value> = events
            .iter()
            .filter(|e| e["ph"] == "M" && e["args"]["name"].is_string())
            .map(|e| &e["args"]["name"])
            .collect();
        assert_eq!(
            names,
            [
                "ext4/jbd2",
                "sync 1",
                "task kjournald",
                "request 1",
                "request 2",
                "flush 1"
            ]
        );
    }
}
