//! Plots of bars: stacked, and side by side.

use super::{HEIGHT, Plot, PlotPoint, colour, strings, text};
use serde_json::{Value, json};

/// Characters that fit side by side below the bars of a narrow screen.
const LEVEL_CHARS: usize = 36;

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

/// A bar made of parts.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its parts from the bottom.
    pub values: Vec<f64>,
    /// Whether a publication says it: then it is paler and has a dashed edge, and a part that is
    /// not told is 0.
    pub published: bool,
}

impl Bar {
    /// A bar of measured values.
    pub fn measured((name, values): &(String, Vec<f64>)) -> Bar {
        Bar {
            name: name.clone(),
            values: values.clone(),
            published: false,
        }
    }

    fn points<'a>(&'a self, parts: &'a [String]) -> impl Iterator<Item = PlotPoint> + 'a {
        let cells = parts.iter().zip(&self.values);
        // A part that a publication does not tell is none of its values.
        let cells = cells.filter(|(_, y)| !self.published || **y != 0.0);
        cells.filter_map(|(part, y)| {
            let what = self.published.then(|| format!("{}: {part}", self.name));
            Some(PlotPoint {
                published: self.published,
                what,
                ..PlotPoint::of_group(part, &self.name, *y)?
            })
        })
    }
}

/// Draws one bar per scheme, made of parts stacked from the bottom. `parts` names the parts; each
/// bar has as many values.
pub fn stacked_bars(
    title: &str,
    unit: &str,
    parts: &[String],
    bars: &[(String, Vec<f64>)],
) -> Plot {
    let bars: Vec<Bar> = bars.iter().map(Bar::measured).collect();
    stacked_beside(title, unit, parts, &bars)
}

/// The same with bars of published values among them.
pub fn stacked_beside(title: &str, unit: &str, parts: &[String], bars: &[Bar]) -> Plot {
    let of_bar = |bar: &Bar| -> Vec<Value> {
        let cell = |(p, value): (usize, &f64)| {
            json!({
                "bar": bar.name, "part": parts[p], "order": p, "value": value,
                "published": bar.published,
            })
        };
        let values = bar.values.iter().take(parts.len());
        values.enumerate().map(cell).collect()
    };
    let values: Vec<Value> = bars.iter().flat_map(of_bar).collect();
    let mut mark = json!({"type": "bar", "tooltip": true});
    let mut encoding = json!({
        "x": names_below("bar", bars.iter().map(|bar| &bar.name)),
        "y": {"field": "value", "type": "quantitative", "title": unit},
        "color": colour("part", parts),
        "order": {"field": "order"},
    });
    if bars.iter().any(|bar| bar.published) {
        let told = |with: Value, without: Value| {
            let condition = json!({"test": "datum.published", "value": with});
            json!({"condition": condition, "value": without})
        };
        encoding["opacity"] = told(json!(0.5), json!(1));
        encoding["strokeWidth"] = told(json!(1), json!(0));
        mark["stroke"] = json!("#787878");
        mark["strokeDash"] = json!([4, 2]);
    }
    let spec = json!({
        "height": HEIGHT, "data": {"values": values}, "mark": mark, "encoding": encoding,
    });
    let head = [format!("{title}, {unit}")].into_iter();
    let head = head.chain(parts.iter().cloned()).collect();
    let whole: Vec<_> = bars
        .iter()
        .map(|bar| (bar.name.clone(), bar.values.clone()))
        .collect();
    let points = bars.iter().flat_map(|bar| bar.points(parts));
    Plot::new(title, spec, head, lines_of(&whole)).showing(unit, None, points)
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
    let points = series.iter().flat_map(|(name, values)| {
        let cells = groups.iter().zip(values);
        cells.filter_map(move |(group, y)| PlotPoint::of_group(name, group, *y))
    });
    Plot::new(title, spec, head.collect(), lines_of(series)).showing(unit, None, points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_bar_stands_beside_and_has_the_parts_that_are_told() {
        let parts = ["p", "q"].map(String::from);
        let bar = |name: &str, values: [f64; 2], published| Bar {
            name: name.into(),
            values: values.into(),
            published,
        };
        let measured = bar("a", [1.0, 0.0], false);
        let bars = [measured.clone(), bar("a, published", [0.0, 3.0], true)];
        let plot = stacked_beside("t", "s", &parts, &bars);
        let told: Vec<_> = plot.points().iter().filter(|p| p.published).collect();
        assert_eq!(told.len(), 1, "what is not told is no value");
        assert_eq!(
            (told[0].y, told[0].series.as_deref()),
            (Some(3.0), Some("q"))
        );
        let all = plot.points().len();
        assert_eq!(all, 3, "a measured 0 is a value");
        assert!(plot.has_published() && plot.spec()["encoding"]["opacity"].is_object());
        let alone = stacked_beside("t", "s", &parts, &[measured]);
        assert!(!alone.has_published() && alone.spec()["encoding"]["opacity"].is_null());
    }
}
