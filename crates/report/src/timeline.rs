//! The time line of runs as a trace of Chrome's format, which ui.perfetto.dev and chrome://tracing
//! open: each run is a process, its syncs and the commands of its device are spans in it. Equal
//! runs give equal bytes.

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

/// What happened in the measured part of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// Calls of fsync and fdatasync, from call to return.
    pub syncs: Vec<Span>,
    /// Commands of the device, from submission until a task has learnt of the end.
    pub commands: Vec<Span>,
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
        // Threads are sorted by number: syncs above commands.
        for (first, word, spans) in [
            (1, "sync", &timeline.syncs),
            (1001, "device", &timeline.commands),
        ] {
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
            for lane in 0..lanes.ends.len() {
                let name = format!("{word} {}", lane + 1);
                events.push(json!({"ph": "M", "pid": pid, "tid": first + lane, "name": "thread_name", "args": {"name": name}}));
            }
        }
    }
    let whole = json!({"displayTimeUnit": "ns", "traceEvents": events});
    format!("{whole}\n")
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
        };
        let text = chrome_trace(&[("ext4/jbd2".into(), timeline)]);
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let lane = |name: &str| {
            let event = events.iter().find(|e| e["name"] == name).expect("there");
            event["tid"].as_u64().expect("a number")
        };
        assert_eq!([lane("a"), lane("b"), lane("c")], [1001, 1002, 1001]);
        assert_eq!(lane("fsync"), 1);
        let c = events.iter().find(|e| e["name"] == "c").expect("there");
        assert_eq!((&c["ts"], &c["dur"]), (&json!(2.0), &json!(0.5)));
        let names: Vec<&Value> = events
            .iter()
            .filter(|e| e["ph"] == "M")
            .map(|e| &e["args"]["name"])
            .collect();
        assert_eq!(names, ["ext4/jbd2", "sync 1", "device 1", "device 2"]);
    }
}
