//! Plots as specifications of Vega-Lite, which the page draws at the width of the reader's screen.
//! Colours and order depend on the data only, so that equal results give equal bytes.

use crate::metrics::round;
use crate::over_time::OverTime;
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

/// Version of Vega-Lite that the specifications are written for.
const LANGUAGE: &str = "https://vega.github.io/schema/vega-lite/v6.json";
/// Height of a plot, pixels.
const HEIGHT: u32 = 280;
/// Height of a plot of one run over its time, pixels.
const OVER_TIME_HEIGHT: u32 = 190;
/// Height of a line of a plot that lists its values, pixels: its name stands above it.
const LINE_HEIGHT: u32 = 36;
/// Characters that fit side by side below the bars of a narrow screen.
const LEVEL_CHARS: usize = 36;
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
    spec: Value,
    head: Vec<String>,
    lines: Vec<Vec<String>>,
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
        }
    }

    /// The plot as a part of a page that ends with [`SCRIPTS`].
    pub fn figure(&self, caption: &str) -> Markup {
        // A script element ends at the first `</script`, whatever it is inside of.
        let spec = self.spec.to_string().replace('<', "\\u003c");
        html! {
            figure.plot aria-label=(self.title) {
                figcaption { b { (self.title) } @if caption != self.title { " " span.dim { (caption) } } }
                script type="application/json" { (PreEscaped(spec)) }
                div.chart {}
                details {
                    summary { "Values" }
                    div.scroll { table {
                        thead { tr { @for h in &self.head { th scope="col" { (h) } } } }
                        tbody { @for line in &self.lines { tr { @for cell in line { td { (cell) } } } } }
                    } }
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

/// The axis of the names below bars: level if there is room.
fn names_below<'a>(field: &str, names: impl Iterator<Item = &'a String>) -> Value {
    let (count, longest) = names.fold((0, 0), |(n, most), name| (n + 1, most.max(name.len() + 2)));
    let angle = if count * longest <= LEVEL_CHARS {
        0
    } else {
        -35
    };
    json!({"field": field, "type": "nominal", "sort": null, "title": null, "axis": {"labelAngle": angle}})
}

/// Draws one bar per scheme, made of parts stacked from the bottom. `parts` names the parts; each
/// bar has as many values.
pub fn stacked_bars(
    title: &str,
    unit: &str,
    parts: &[String],
    bars: &[(String, Vec<f64>)],
) -> Plot {
    let cell = |name: &String, p: usize, value: f64| json!({"bar": name, "part": parts[p], "order": p, "value": value});
    let of_bar = |(name, values): &(String, Vec<f64>)| -> Vec<Value> {
        let values = values.iter().take(parts.len()).enumerate();
        values.map(|(p, value)| cell(name, p, *value)).collect()
    };
    let values: Vec<Value> = bars.iter().flat_map(of_bar).collect();
    let spec = json!({
        "height": HEIGHT,
        "data": {"values": values},
        "mark": {"type": "bar", "tooltip": true},
        "encoding": {
            "x": names_below("bar", bars.iter().map(|(name, _)| name)),
            "y": {"field": "value", "type": "quantitative", "title": unit},
            "color": colour("part", parts),
            "order": {"field": "order"},
        },
    });
    let head = [format!("{title}, {unit}")]
        .into_iter()
        .chain(strings(parts));
    Plot::new(title, spec, head.collect(), lines_of(bars))
}

fn lines_of(rows: &[(String, Vec<f64>)]) -> Vec<Vec<String>> {
    let line = |(name, values): &(String, Vec<f64>)| {
        let values = values.iter().map(|x| text(*x));
        [name.clone()].into_iter().chain(values).collect()
    };
    rows.iter().map(line).collect()
}

/// Draws groups of bars side by side: each series has one value per group; negative values hang
/// below the axis.
pub fn grouped_bars(
    title: &str,
    unit: &str,
    groups: &[String],
    series: &[(String, Vec<f64>)],
) -> Plot {
    let of_series = |(name, values): &(String, Vec<f64>)| -> Vec<Value> {
        let cell = |(group, value)| json!({"group": group, "series": name, "value": value});
        groups.iter().zip(values).map(cell).collect()
    };
    let values: Vec<Value> = series.iter().flat_map(of_series).collect();
    let names: Vec<String> = series.iter().map(|(name, _)| name.clone()).collect();
    let spec = json!({
        "height": HEIGHT,
        "data": {"values": values},
        "mark": {"type": "bar", "tooltip": true},
        "encoding": {
            "x": names_below("group", groups.iter()),
            "xOffset": {"field": "series", "type": "nominal", "sort": null, "scale": {"domain": names}},
            "y": {"field": "value", "type": "quantitative", "title": unit},
            "color": colour("series", &names),
        },
    });
    let head = [format!("{title}, {unit}")]
        .into_iter()
        .chain(strings(groups));
    Plot::new(title, spec, head.collect(), lines_of(series))
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
    Plot::new(title, spec, head.into(), lines)
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
    Plot::new(title, spec, head.map(String::from).into(), lines)
}

/// A published value and the one that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Pair {
    /// What it is the value of.
    pub name: String,
    /// The published value; `None` if it is a range.
    pub published: Option<f64>,
    /// What agrees: the published range, or the value with its tolerance; an end that is missing is
    /// open.
    pub agrees: (Option<f64>, Option<f64>),
    /// What was measured.
    pub measured: f64,
    /// The verdict in a word.
    pub verdict: String,
}

/// Draws published values beside measured ones, one line for each: a band for what agrees, a
/// diamond for the published value, a dot for the measured one.
pub fn pairs(title: &str, unit: &str, all: &[Pair]) -> Plot {
    let ends = |pair: &Pair| {
        let (low, high) = pair.agrees;
        [low, high, pair.published, Some(pair.measured)]
    };
    let known = || all.iter().flat_map(ends).flatten();
    let (least, most) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    // An open end goes to the edge of the plot.
    let (left, right) = (least.min(0.0), most.max(0.0));
    let is_wide = least > 0.0 && most > least * LINEAR_SPAN;
    let (left, right) = match is_wide {
        true => (least / 2.0, most * 2.0),
        false => (left - 0.04 * (right - left), right + 0.04 * (right - left)),
    };
    let value = |pair: &Pair| {
        let band = pair.agrees.0.is_some() || pair.agrees.1.is_some();
        json!({
            "name": pair.name,
            "published": pair.published,
            "low": band.then(|| pair.agrees.0.unwrap_or(left).max(left)),
            "high": band.then(|| pair.agrees.1.unwrap_or(right).min(right)),
            "measured": pair.measured,
            "verdict": pair.verdict,
        })
    };
    let values: Vec<Value> = all.iter().map(value).collect();
    let scale = match is_wide {
        true => json!({"type": "log", "domain": [left, right], "nice": false}),
        false => json!({"domain": [left, right], "nice": false}),
    };
    let place = |field: &str| json!({"field": field, "type": "quantitative", "title": unit, "scale": scale});
    let series = |name: &str| {
        json!({"datum": name, "type": "nominal", "scale": {
            "domain": ["what agrees", "published", "measured"],
            "range": [COLOURS[7], COLOURS[1], COLOURS[0]],
        }})
    };
    let spec = json!({
        "height": {"step": LINE_HEIGHT},
        "data": {"values": values},
        "encoding": {"y": {
            "field": "name", "type": "nominal", "sort": null, "title": null,
            "axis": {
                "grid": true, "gridDash": [2, 4], "domain": false, "ticks": false,
                "labelAlign": "left", "labelPadding": -3, "labelBaseline": "line-bottom", "labelOffset": -7,
            },
        }},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 9, "opacity": 0.35},
                "encoding": {"x": place("low"), "x2": {"field": "high"}, "color": series("what agrees")},
            },
            {
                "mark": {"type": "point", "shape": "diamond", "filled": false, "size": 90, "strokeWidth": 2, "tooltip": {"content": "data"}},
                "encoding": {"x": place("published"), "color": series("published")},
            },
            {
                "mark": {"type": "point", "shape": "circle", "filled": true, "size": 70, "opacity": 1, "tooltip": {"content": "data"}},
                "encoding": {"x": place("measured"), "color": series("measured")},
            },
        ],
    });
    let head = ["value", "published", "agrees from", "to", "measured", ""].map(String::from);
    let line = |pair: &Pair| {
        let cell = |x: Option<f64>| x.map_or_else(String::new, text);
        vec![
            pair.name.clone(),
            cell(pair.published),
            cell(pair.agrees.0),
            cell(pair.agrees.1),
            text(pair.measured),
            pair.verdict.clone(),
        ]
    };
    Plot::new(title, spec, head.into(), all.iter().map(line).collect())
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

    #[test]
    fn an_open_end_of_what_agrees_goes_to_the_edge() {
        let pair = |agrees, measured| Pair {
            name: "n</script>".into(),
            published: Some(1.0),
            agrees,
            measured,
            verdict: "within".into(),
        };
        let plot = pairs(
            "t",
            "x",
            &[
                pair((Some(1.0), None), 4.0),
                pair((Some(0.5), Some(1.5)), 1.0),
            ],
        );
        let first = &plot.spec()["data"]["values"][0];
        assert_eq!(
            (&first["low"], &first["measured"]),
            (&json!(1.0), &json!(4.0))
        );
        assert!(first["high"].as_f64().is_some_and(|high| high > 4.0));
        let page = plot.figure("c").into_string();
        assert_eq!(page.matches("</script>").count(), 1, "{page}");
        assert!(page.contains("\\u003c/script>") && page.contains("n&lt;/script&gt;"));
    }
}
