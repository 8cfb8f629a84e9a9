//! The plot of published values beside measured ones, a line for each.

use super::{COLOURS, LINE_HEIGHT, LINEAR_SPAN, Plot, PlotPoint, text};
use serde_json::{Value, json};

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
        false => {
            let room = 0.04 * (right - left);
            // Where nothing is negative, the axis begins at 0.
            let below = if left < 0.0 { room } else { 0.0 };
            // Values that are all 0 need an axis, too.
            let above = if right > left { room } else { 1.0 };
            (left - below, right + above)
        }
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
    let shape = |name: &str| {
        let scale = json!({"domain": ["published", "measured"], "range": ["diamond", "circle"]});
        json!({"datum": name, "type": "nominal", "scale": scale, "legend": {}})
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
                "mark": {"type": "rule", "strokeWidth": 9, "opacity": 0.35, "color": COLOURS[7]},
                "encoding": {"x": place("low"), "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": true, "color": COLOURS[0], "size": 60, "opacity": 1, "tooltip": {"content": "data"}},
                "encoding": {"x": place("measured"), "shape": shape("measured")},
            },
            {
                "mark": {"type": "point", "style": "outline", "size": 150, "strokeWidth": 1.5, "opacity": 1, "tooltip": {"content": "data"}},
                "encoding": {"x": place("published"), "shape": shape("published")},
            },
        ],
    });
    let head = ["value", "published", "agrees from", "to", "measured", ""].map(String::from);
    let lines = all.iter().map(line).collect();
    let points = all.iter().flat_map(points);
    Plot::new(title, spec, head.into(), lines).showing(unit, None, points)
}

/// The pair as a row of the table.
fn line(pair: &Pair) -> Vec<String> {
    let cell = |x: Option<f64>| x.map_or_else(String::new, text);
    vec![
        pair.name.clone(),
        cell(pair.published),
        cell(pair.agrees.0),
        cell(pair.agrees.1),
        text(pair.measured),
        pair.verdict.clone(),
    ]
}

/// The published and the measured value as points of the plot.
fn points(pair: &Pair) -> [PlotPoint; 2] {
    let point = |published, y| PlotPoint {
        published,
        what: published.then(|| pair.name.clone()),
        group: Some(pair.name.clone()),
        y,
        ..PlotPoint::default()
    };
    let mut said = point(true, pair.published);
    (said.low, said.high) = pair.agrees;
    [said, point(false, Some(pair.measured))]
}

#[cfg(test)]
mod tests {
    use super::*;

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
