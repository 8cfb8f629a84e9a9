//! Checks that the generated apps have the characteristics that the paper publishes.

mod baseline;
mod fit;

use super::published;
use work::recording::Recording;
use work::recording::apps::{APPS, Parameters, generate, table};

fn fsyncs(recording: &Recording) -> usize {
    recording.calls.iter().filter(|c| c.op.is_sync()).count()
}

#[test]
fn the_committed_table_has_the_papers_apps_and_rates() {
    let (table, published) = (table(), published().unwrap());
    let names: Vec<&str> = table.apps.iter().map(|app| &app.name[..]).collect();
    assert_eq!(names, APPS);
    for app in &table.apps {
        app.check().unwrap();
        let rate = published.get("Table 3", "fsyncs in 5 s", Some(&app.name));
        assert_eq!(Some(f64::from(app.fsyncs)), rate.value, "{}", app.name);
    }
}

/// Seconds of a checked run: an app that seldom syncs runs longer, so that the mean of its commits
/// is over enough of them.
fn length(app: &Parameters) -> u32 {
    if app.fsyncs < 9 { 600 } else { 60 }
}

#[test]
fn each_app_has_the_papers_characterisation_on_the_baseline() {
    let published = published().unwrap();
    for (app, seed) in table().apps.iter().flat_map(|app| [(app, 1), (app, 77)]) {
        let recording = generate(&app.name, length(app), seed).unwrap();
        let counts = baseline::run(&recording, "jbd2").unwrap();
        let check = |figure, item, found: f64, tolerance: f64| {
            let wanted = published.get(figure, item, Some(&app.name)).value.unwrap();
            assert!(
                (found - wanted).abs() <= tolerance,
                "{} seed {seed}: {item} is {found:.4}, not {wanted} +-{tolerance}",
                app.name
            );
        };
        let rate = fsyncs(&recording) as f64 * 5.0 / f64::from(length(app));
        check("Table 3", "fsyncs in 5 s", rate, 0.0);
        let control = counts.control_ratio_mean();
        check(
            "Table 3",
            "control blocks over journal blocks",
            control,
            0.01,
        );
        let ratio = counts.journal_ratio();
        check("Table 4", "journal block ratio, baseline", ratio, 0.02);
    }
}
