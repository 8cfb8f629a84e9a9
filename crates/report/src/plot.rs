//! Plots as specifications of Vega-Lite, which the page draws at the width of the reader's screen.
//! Colours and order depend on the data only, so that equal results give equal bytes.

mod bars;
mod pairs;
mod points;
mod published;

use crate::metrics::round;
use crate::over_time::OverTime;
use crate::shell::row;
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

pub use bars::{Bar, grouped_bars, stacked_bars, stacked_beside};
pub use pairs::{Pair, pairs};
pub use points::PlotPoint;
pub use published::{At, Mark, Says};

/// Version of Vega-Lite that the specifications are written for.
const LANGUAGE: &str = "https://vega.github.io/schema/vega-lite/v6.json";
/// Height of a plot, pixels.
const HEIGHT: u32 = 280;
/// Height of a plot of one run over its time, pixels.
const OVER_TIME_HEIGHT: u32 = 190;
/// Height of a line of a plot that lists its values, pixels: its name stands above it.
const LINE_HEIGHT: u32 = 36;
/// Values that span more than this get a logarithmic axis.
const LINEAR_SPAN: f64 = 100.0;
/// Colours in the order in which they are used: those of Okabe and Ito, which colour-blind readers
/// can tell apart, and which can be seen on white and on black.
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b3a100", "#787878",
];

/// Draws the plots of a page; goes to its end.
pub const SCRIPTS: [&str; 3] = [
    include_str!("../vendor/vega.min.js"),
    include_str!("../vendor/vega-lite.min.js"),
    include_str!("plot.js"),
];

/// A plot, and its values as a table for those who cannot see it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plot {
    /// What it shows, in a few words.
    pub title: String,
    /// What its values are, with their unit.
    pub y: String,
    /// What stands along it, with its unit; `None` if names do.
    pub x: Option<String>,
    spec: Value,
    head: Vec<String>,
    lines: Vec<Vec<String>>,
    points: Vec<PlotPoint>,
    /// Published values stand over the measured ones, and need a table of their own.
    has_marks: bool,
}

impl Plot {
    fn new(title: &str, spec: Value, head: Vec<String>, lines: Vec<Vec<String>>) -> Plot {
        let mut whole = json!({
            "$schema": LANGUAGE,
            "width": "container",
            "autosize": {"type": "fit-x", "contains": "padding"},
        });
        merge(&mut whole, spec);
        Plot {
            title: title.into(),
            spec: whole,
            head,
            lines,
            ..Plot::default()
        }
    }

    /// Sets what its values are, what stands along it, and the values themselves.
    fn showing(
        mut self,
        y: &str,
        x: Option<&str>,
        points: impl Iterator<Item = PlotPoint>,
    ) -> Plot {
        self.y = y.into();
        self.x = x.map(String::from);
        self.points = points.collect();
        self
    }

    /// The plot as a part of a page that ends with [`SCRIPTS`].
    pub fn figure(&self, caption: &str) -> Markup {
        // A script element ends at the first `</script`, whatever it is inside of.
        let spec = self.spec.to_string().replace('<', "\\u003c");
        // A caption that begins with the title does not say it twice.
        let said = caption.strip_prefix(&self.title).unwrap_or(caption);
        let said = said.trim_start_matches(['.', ' ']);
        html! {
            figure.plot aria-label=(self.title) {
                figcaption { b { (self.title) } @if !said.is_empty() { " " span.dim { (said) } } }
                script type="application/json" { (PreEscaped(spec)) }
                div.chart {}
                details {
                    summary { "Values" }
                    div.scroll { table {
                        thead { tr { @for h in &self.head { th scope="col" { (h) } } } }
                        tbody { @for line in &self.lines { (row(line)) } }
                    } }
                    @if self.has_marks { (self.published_table()) }
                }
            }
        }
    }

    /// The specification, to draw it elsewhere.
    pub fn spec(&self) -> &Value {
        &self.spec
    }
}

/// Puts the members of `more` into `into`.
fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// Text of a value: five significant digits.
fn text(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        a if a >= 1000.0 => format!("{x:.0}"),
        a if a >= 1.0 => format!("{x:.3}"),
        _ => format!("{x:.5}"),
    }
}

fn strings<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    names.into_iter().cloned().collect()
}

/// The channel that gives each of `names` its colour, in their order.
fn colour(field: &str, names: &[String]) -> Value {
    let range: Vec<&str> = (0..names.len())
        .map(|n| COLOURS[n % COLOURS.len()])
        .collect();
    let legend = match names.len() {
        0 | 1 => Value::Null,
        _ => json!({}),
    };
    json!({
        "field": field,
        "type": "nominal",
        "sort": null,
        "scale": {"domain": names, "range": range},
        "legend": legend,
    })
}

/// What stands along the two axes of a plot of lines.
struct Axes {
    x: Value,
    y: Value,
    /// How a line goes from point to point.
    interpolate: &'static str,
}

fn line_plot(
    title: &str,
    (x_unit, y_unit): (&str, &str),
    all: &[(String, Vec<(f64, f64)>)],
    axes: &Axes,
) -> Plot {
    let of_line = |(name, points): &(String, Vec<(f64, f64)>)| -> Vec<Value> {
        let point = |(x, y): &(f64, f64)| json!({"line": name, "x": x, "y": y});
        points.iter().map(point).collect()
    };
    let values: Vec<Value> = all.iter().flat_map(of_line).collect();
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    let spec = json!({
        "height": HEIGHT,
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": axes.interpolate, "tooltip": true},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": x_unit, "scale": axes.x},
            "y": {"field": "y", "type": "quantitative", "title": y_unit, "scale": axes.y},
            "color": colour("line", &names),
        },
    });
    let head = ["line".to_string(), x_unit.into(), y_unit.into()];
    let lines = all.iter().flat_map(|(name, points)| {
        let line = |(x, y): &(f64, f64)| vec![name.clone(), text(*x), text(*y)];
        points.iter().map(line)
    });
    let lines = lines.collect();
    let points = all.iter().flat_map(|(name, points)| {
        let point = |at: &(f64, f64)| PlotPoint::of_line(name, *at);
        points.iter().filter_map(point)
    });
    Plot::new(title, spec, head.into(), lines).showing(y_unit, Some(x_unit), points)
}

/// The corners of a distribution: what stands left of `low` is drawn there.
fn corners(points: &[(f64, f64)], low: f64) -> Vec<(f64, f64)> {
    let start = [(low, 0.0)].into_iter();
    start
        .chain(points.iter().map(|&(x, y)| (x.max(low), y)))
        .collect()
}

/// Draws cumulative distributions, one line per scheme. The axis is logarithmic and begins at one
/// microsecond; shorter latencies are drawn there.
pub fn cdf(title: &str, unit: &str, lines: &[(String, Vec<(f64, f64)>)]) -> Plot {
    let all = || {
        lines
            .iter()
            .flat_map(|(_, points)| points.iter().map(|p| p.0))
    };
    let low = all().fold(f64::INFINITY, f64::min).clamp(1.0, 1e9);
    let drawn: Vec<_> = lines
        .iter()
        .map(|(name, points)| (name.clone(), corners(points, low)))
        .collect();
    let axes = Axes {
        x: json!({"type": "log", "nice": false}),
        y: json!({"domain": [0, 1]}),
        interpolate: "step-after",
    };
    line_plot(title, (unit, "fraction at or below"), &drawn, &axes)
}

/// Draws the slow end of distributions: the fraction of operations that took longer than a latency,
/// on two logarithmic axes. Each system has one line, which its slowest operation ends at the
/// fraction of a single operation.
pub fn tail(title: &str, unit: &str, lines: &[(String, Vec<(f64, f64)>)]) -> Plot {
    const LEAST: f64 = 1e-6;
    let all = || lines.iter().flat_map(|(_, points)| points.iter());
    let low = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let low = low.clamp(0.1, 1e9);
    let least = all().map(|p| 1.0 - p.1).filter(|left| *left > LEAST);
    let least = least.fold(1e-2, f64::min) / 2.0;
    let drawn: Vec<_> = lines
        .iter()
        .map(|(name, points)| {
            let left = corners(points, low).into_iter();
            (
                name.clone(),
                left.map(|(x, y)| (x, (1.0 - y).max(least))).collect(),
            )
        })
        .collect();
    let axes = Axes {
        x: json!({"type": "log", "nice": false}),
        y: json!({"type": "log"}),
        interpolate: "step-after",
    };
    line_plot(title, (unit, "fraction that took longer"), &drawn, &axes)
}

/// Draws one line per system over a linear axis. The axis of values is logarithmic if they span
/// more than two orders of magnitude, and then begins at a millionth of the largest.
pub fn lines(title: &str, units: (&str, &str), all: &[(String, Vec<(f64, f64)>)]) -> Plot {
    let values = || {
        all.iter()
            .flat_map(|(_, points)| points.iter().map(|p| p.1))
    };
    let high = values().fold(0.0, f64::max);
    let low = values().filter(|y| *y > 0.0).fold(high, f64::min);
    let is_wide = high > low * LINEAR_SPAN;
    let floor = if is_wide { low.max(high / 1e6) } else { 0.0 };
    let drawn: Vec<_> = all
        .iter()
        .map(|(name, points)| {
            let points = points.iter().map(|&(x, y)| (x, y.max(floor)));
            (name.clone(), points.collect())
        })
        .collect();
    let axes = Axes {
        x: json!({}),
        y: match is_wide {
            true => json!({"type": "log"}),
            false => json!({"zero": true}),
        },
        interpolate: "linear",
    };
    line_plot(title, units, &drawn, &axes)
}

/// The least and the longest latency of these, microseconds, for an axis that they share.
pub fn range<'a>(all: impl Iterator<Item = &'a OverTime>) -> (f64, f64) {
    let latencies = all.flat_map(|one| one.mean_us.iter().chain(&one.max_us));
    let (least, most) = latencies
        .filter(|us| **us > 0.0)
        .fold((f64::INFINITY, LEAST_US), |(low, high), us| {
            (low.min(*us), high.max(*us))
        });
    (least.clamp(LEAST_US, most), most)
}

/// Shorter latencies are drawn here: a tenth of a microsecond.
const LEAST_US: f64 = 0.1;
/// What stands above the latencies: the name in the legend, the field, its colour, and where it
/// is drawn, pixels from the top.
const STRIPS: [(&str, &str, &str, u32); 3] = [
    ("commits", "commits", COLOURS[2], 0),
    ("checkpoint", "checkpoint", COLOURS[1], 9),
    ("flash moves and erases", "flash", COLOURS[5], 18),
];

/// A strip above the latencies.
fn layer_of(&(_, field, _, top): &(&str, &str, &str, u32), x: &Value, series: &Value) -> Value {
    json!({
        "transform": [{"filter": format!("datum.{field} != null")}],
        "mark": {"type": "rect", "tooltip": {"content": "data"}},
        "encoding": {
            "x": x, "x2": {"field": "to"},
            "y": {"value": top}, "y2": {"value": top + 7},
            "color": series,
            "opacity": {"field": field, "type": "quantitative", "scale": {"zero": true, "range": [0.25, 1.0]}, "legend": null},
        },
    })
}

/// Draws how long calls took over the time of a run, on an axis of this range, and above it strips
/// that are the darker the more was committed, checkpointed and moved at that time.
pub fn over_time(title: &str, over: &OverTime, range: (f64, f64)) -> Plot {
    let flash = |n: usize| over.moved_units[n] + over.erases[n];
    let value = |n: usize| {
        let latency = |us: f64| (over.calls[n] > 0).then(|| us.max(range.0));
        let count = |count: u64| (count > 0).then_some(count);
        json!({
            "from": round(n as f64 * over.bin_s), "to": round((n + 1) as f64 * over.bin_s),
            "at": round((n as f64 + 0.5) * over.bin_s),
            "mean": latency(over.mean_us[n]), "longest": latency(over.max_us[n]),
            "commits": count(over.commits[n]), "checkpoint": count(over.checkpoint_blocks[n]),
            "flash": count(flash(n)),
        })
    };
    let values: Vec<Value> = (0..over.len()).map(value).collect();
    let mut names = vec!["mean", "longest"];
    names.extend(STRIPS.iter().map(|(name, ..)| *name));
    let mut colours = vec![COLOURS[0], COLOURS[4]];
    colours.extend(STRIPS.iter().map(|(_, _, colour, _)| *colour));
    let series = |name: &str| {
        json!({"datum": name, "type": "nominal", "scale": {
            "domain": names, "range": colours,
        }})
    };
    // The strips have the height above the longest latency for themselves.
    let room = (range.1 / range.0).powf(0.25).max(2.0);
    let scale = json!({"type": "log", "domain": [range.0, range.1 * room], "nice": false});
    let x =
        |field: &str| json!({"field": field, "type": "quantitative", "title": "virtual seconds"});
    let y = |field: &str| json!({"field": field, "type": "quantitative", "title": format!("{}, microseconds", over.of), "scale": scale});
    let mut layers = vec![
        json!({
            "mark": {"type": "point", "filled": true, "size": 22, "opacity": 0.9, "tooltip": {"content": "data"}},
            "encoding": {"x": x("at"), "y": y("longest"), "color": series("longest")},
        }),
        json!({
            "mark": {"type": "line", "interpolate": "step"},
            "encoding": {"x": x("at"), "y": y("mean"), "color": series("mean")},
        }),
    ];
    layers.extend(
        STRIPS
            .iter()
            .map(|strip| layer_of(strip, &x("from"), &series(strip.0))),
    );
    let spec = json!({
        "height": OVER_TIME_HEIGHT,
        "data": {"values": values},
        "layer": layers,
        "resolve": {"scale": {"opacity": "independent"}},
    });
    let head = [
        "from, s",
        "calls",
        "mean, us",
        "longest, us",
        "commits",
        "checkpoint, blocks",
        "moved, units",
        "erases",
    ];
    let line = |n: usize| {
        let counts = [
            over.commits[n],
            over.checkpoint_blocks[n],
            over.moved_units[n],
            over.erases[n],
        ];
        [text(n as f64 * over.bin_s), over.calls[n].to_string()]
            .into_iter()
            .chain([text(over.mean_us[n]), text(over.max_us[n])])
            .chain(counts.iter().map(u64::to_string))
            .collect()
    };
    let lines = (0..over.len()).map(line).collect();
    let unit = format!("{}, microseconds", over.of);
    let plot = Plot::new(title, spec, head.map(String::from).into(), lines);
    plot.showing(&unit, Some("virtual seconds"), points_of(over).into_iter())
}

/// The mean and the longest call of each bin in which one ended.
fn points_of(over: &OverTime) -> Vec<PlotPoint> {
    let all = [("mean", &over.mean_us), ("longest", &over.max_us)];
    let points = all.into_iter().flat_map(|(name, us)| {
        let at = |n: usize| ((n as f64 + 0.5) * over.bin_s, us[n]);
        let calls = (0..over.len()).filter(|n| over.calls[*n] > 0);
        calls.filter_map(move |n| PlotPoint::of_line(name, at(n)))
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<(String, Vec<(f64, f64)>)> {
        let line = |name: &&str| ((*name).to_string(), vec![(0.5, 0.25), (900.0, 1.0)]);
        names.iter().map(line).collect()
    }

    #[test]
    fn every_plot_has_its_values_and_a_table_of_them() {
        let bars = [
            ("a".to_string(), vec![1.0, 2.0]),
            ("b".to_string(), vec![3.0, -4.0]),
        ];
        let parts = ["p", "q"].map(String::from);
        for (plot, points, lines) in [
            (stacked_bars("t", "s", &parts, &bars), 4, 2),
            (grouped_bars("t", "s", &parts, &bars), 4, 2),
            (cdf("t", "us", &named(&["x", "y"])), 6, 6),
            (tail("t", "us", &named(&["x"])), 3, 3),
            (super::lines("t", ("s", "us"), &named(&["x"])), 2, 2),
        ] {
            let values = plot.spec()["data"]["values"].as_array().expect("values");
            assert_eq!((values.len(), plot.lines.len()), (points, lines));
            assert!(plot.lines.iter().all(|line| line.len() == plot.head.len()));
        }
    }

    #[test]
    fn short_latencies_stand_at_the_begin_of_a_logarithmic_axis() {
        let plot = cdf("t", "us", &named(&["x"]));
        assert_eq!(plot.spec()["encoding"]["x"]["scale"]["type"], "log");
        assert_eq!(plot.spec()["data"]["values"][1]["x"], 1.0);
        let wide = super::lines(
            "t",
            ("s", "us"),
            &[("x".into(), vec![(0.0, 0.0), (1.0, 1e9)])],
        );
        assert_eq!(
            wide.spec()["encoding"]["y"]["scale"],
            json!({"zero": true}),
            "one positive value has no span"
        );
        let wide = super::lines(
            "t",
            ("s", "us"),
            &[("x".into(), vec![(0.0, 1.0), (1.0, 1e9)])],
        );
        assert_eq!(wide.spec()["encoding"]["y"]["scale"]["type"], "log");
        assert_eq!(wide.spec()["data"]["values"][0]["y"], 1e3);
    }
}
