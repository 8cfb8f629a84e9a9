//! Cuts long cases of `crash` into parts of about a minute. A run of `compare`, a job of `paper`,
//! and a case whose recoveries or chips are cut, are one simulation each and stay whole.

use super::task::Task;
use crash::part::Part;
use crash::plan::Job;

/// Of the time of a long case, what each of its parts spends on the run and on making all states.
const MAKING: f64 = 0.1;
/// Parts of a case at most: each more would mostly make states that it does not judge.
const PARTS_MAX: f64 = 1.0 / MAKING;
/// A case that takes not much longer than it should stays whole.
const SLACK: f64 = 1.5;

/// The jobs of a job that takes so many seconds, each with what it takes.
pub fn cut(task: Task, cost: f64, seconds: f64) -> Vec<(Task, f64)> {
    let (Task::Crash(text), true) = (&task, cost > SLACK * seconds) else {
        return vec![(task, cost)];
    };
    let job: Option<Job> = serde_json::from_str(text.get()).ok();
    let Some(job) = job.filter(Job::has_parts) else {
        return vec![(task, cost)];
    };
    // Each part makes all states and judges its own.
    let room = (seconds - MAKING * cost).max(seconds / 2.0);
    let count = ((1.0 - MAKING) * cost / room).ceil().clamp(1.0, PARTS_MAX);
    let each = cost * (MAKING + (1.0 - MAKING) / count);
    let count = count as u32;
    let part = |index| {
        let part = Some(Part { index, count });
        let job = Job {
            part,
            ..job.clone()
        };
        (Task::crash(&job), each)
    };
    (0..count).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn case(device: &str, nested: u32) -> Task {
        let reach = crash::campaign::Reach {
            nested,
            ..Default::default()
        };
        let reach = serde_json::to_string(&reach).unwrap();
        let text = format!(
            r#"{{"number":3,"group":"mix","case":{{"scheme":"jbd2","device":"{device}","workload":"mix","seed":1,"mutant":null}},"reach":{reach},"control":false}}"#
        );
        Task::Crash(RawValue::from_string(text).unwrap())
    }

    #[test]
    fn long_cases_are_cut_and_no_others() {
        let parts = |task, cost| cut(task, cost, 60.0).len();
        assert_eq!(parts(case("spec:emmc", 0), 80.0), 1);
        assert_eq!(parts(case("spec:emmc", 0), 200.0), 5);
        assert_eq!(parts(case("spec:emmc", 0), 1e6), 10);
        assert_eq!(parts(case("spec:emmc", 1), 200.0), 1, "recoveries are cut");
        assert_eq!(parts(case("nand", 0), 200.0), 1, "chips are cut");
        let text = RawValue::from_string("{}".into()).unwrap();
        assert_eq!(parts(Task::Compare(text), 200.0), 1);
    }

    #[test]
    fn parts_take_about_a_minute_and_have_ids_of_their_own() {
        let parts = cut(case("spec:emmc", 0), 300.0, 60.0);
        let ids: std::collections::BTreeSet<String> = parts
            .iter()
            .map(|(task, _)| task.id("b", &[]).unwrap())
            .collect();
        assert_eq!(ids.len(), parts.len());
        assert!(parts.iter().all(|(_, cost)| (50.0..70.0).contains(cost)));
        let places: Vec<u32> = parts.iter().map(|p| p.0.part().unwrap().index).collect();
        assert_eq!(places, (0..parts.len() as u32).collect::<Vec<_>>());
        assert_eq!(parts[1].0.name().split(" of ").next(), Some("part 2"));
        assert_eq!(case("spec:emmc", 0).part(), None);
    }
}
