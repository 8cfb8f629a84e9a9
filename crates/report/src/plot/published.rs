//! Published values drawn over the measured ones of the same plot: a diamond for each number, and a
//! band between the ends of a range, or from a bound to the edge that it leaves open.

use super::{Plot, PlotPoint};
use crate::metrics::round;
use crate::shell::scrolled;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

/// Size of a diamond, square pixels: it is seen over a bar and does not hide the next one.
const DIAMOND: u32 = 64;

/// Where along the plot a published value stands.
#[derive(Clone, PartialEq, Debug)]
pub enum At {
    /// At the group of bars, or at the bar, of this name.
    Group(String),
    /// At this place of an axis of numbers, in its unit.
    X(f64),
    /// It holds for the whole width.
    All,
}

/// What a publication says there, in the plot's unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Says {
    /// It is this.
    Value(f64),
    /// It is between these.
    Range(f64, f64),
    /// It is this or more.
    Least(f64),
    /// It is this or less.
    Most(f64),
    /// Something happens at this place, without a value.
    Here,
}

impl Says {
    /// The same in another unit, or over another base. `unit` must not change which of two values
    /// is larger.
    #[must_use]
    pub fn map(self, unit: impl Fn(f64) -> f64) -> Says {
        match self {
            Says::Value(x) => Says::Value(unit(x)),
            Says::Range(low, high) => Says::Range(unit(low), unit(high)),
            Says::Least(x) => Says::Least(unit(x)),
            Says::Most(x) => Says::Most(unit(x)),
            Says::Here => Says::Here,
        }
    }

    /// What is left of one less this, or one over this: what was the least becomes the most.
    #[must_use]
    pub fn turned(self, unit: impl Fn(f64) -> f64) -> Says {
        match self.map(unit) {
            Says::Range(high, low) => Says::Range(low, high),
            Says::Least(x) => Says::Most(x),
            Says::Most(x) => Says::Least(x),
            same => same,
        }
    }

    fn ends(self) -> (Option<f64>, Option<f64>) {
        match self {
            Says::Range(low, high) => (Some(low), Some(high)),
            Says::Least(low) => (Some(low), None),
            Says::Most(high) => (None, Some(high)),
            Says::Value(_) | Says::Here => (None, None),
        }
    }
}

/// A published value in a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Mark {
    /// What the publication says, in words: the tooltip has them.
    pub what: String,
    /// The series that it is about; `None` if it is about all of them.
    pub series: Option<String>,
    /// Where it stands.
    pub at: At,
    /// What is said.
    pub says: Says,
}

impl Mark {
    /// The same in another unit ([`Says::map`]).
    #[must_use]
    pub fn map(self, unit: impl Fn(f64) -> f64) -> Mark {
        Mark {
            says: self.says.map(unit),
            ..self
        }
    }

    /// The same where a larger value becomes a smaller one ([`Says::turned`]).
    #[must_use]
    pub fn turned(self, unit: impl Fn(f64) -> f64) -> Mark {
        Mark {
            says: self.says.turned(unit),
            ..self
        }
    }

    fn point(&self) -> PlotPoint {
        let (low, high) = self.says.ends();
        let mut point = PlotPoint {
            published: true,
            series: self.series.clone(),
            what: Some(self.what.clone()),
            low: low.map(round),
            high: high.map(round),
            ..PlotPoint::default()
        };
        match &self.at {
            At::Group(group) => point.group = Some(group.clone()),
            At::X(x) => point.x = Some(round(*x)),
            At::All => {}
        }
        if let Says::Value(y) = self.says {
            point.y = Some(round(y));
        }
        point
    }

    /// The place on the plot, as the members of a datum.
    fn datum(&self) -> Map<String, Value> {
        let at = match &self.at {
            At::Group(group) => json!(group),
            At::X(x) => json!(x),
            At::All => Value::Null,
        };
        let all = [
            ("published", json!(self.what)),
            ("series", json!(self.series)),
            ("at", at),
        ];
        all.map(|(name, value)| (name.to_string(), value))
            .into_iter()
            .collect()
    }
}

/// The channels of the plot below, which those of published values share.
struct Channels {
    x: Value,
    y: Value,
    offset: Option<Value>,
    colour: Value,
}

impl Channels {
    fn of(spec: &Value) -> Channels {
        let encoding = &spec["encoding"];
        Channels {
            x: encoding["x"].clone(),
            y: encoding["y"].clone(),
            offset: encoding.get("xOffset").cloned(),
            colour: encoding["color"].clone(),
        }
    }

    fn field(mut channel: Value, field: &str) -> Value {
        channel["field"] = json!(field);
        channel
    }

    /// The encoding of marks at this kind of place. One that belongs to no series stands in the
    /// middle of its group, one for the whole width at its right end.
    fn at(&self, mark: &Mark) -> Map<String, Value> {
        let mut encoding = Map::new();
        match mark.at {
            At::All => encoding.insert("x".into(), json!({"value": "width"})),
            At::Group(_) | At::X(_) => {
                encoding.insert("x".into(), Self::field(self.x.clone(), "at"))
            }
        };
        if let (None, Some(_)) = (&self.offset, &mark.series) {
            // Where no bar says whose it is, its edge has the colour of the line.
            let mut edge = Self::field(self.colour.clone(), "series");
            edge["legend"] = Value::Null;
            encoding.insert("stroke".into(), edge);
        }
        if let (Some(offset), Some(_), At::Group(_)) = (&self.offset, &mark.series, &mark.at) {
            encoding.insert("xOffset".into(), Self::field(offset.clone(), "series"));
        }
        encoding
    }
}

fn layer(values: &[Value], mark: Value, encoding: Map<String, Value>) -> Value {
    json!({"data": {"values": values}, "mark": mark, "encoding": encoding})
}

/// The layers of one published value.
fn layers(channels: &Channels, mark: &Mark) -> Vec<Value> {
    let (low, high) = mark.says.ends();
    let mut layers = Vec::new();
    match mark.says {
        Says::Here => layers.push(place(channels, mark)),
        Says::Value(y) if mark.at == At::All => layers.push(level(channels, mark, y)),
        Says::Value(_) => {}
        Says::Range(..) | Says::Least(_) | Says::Most(_) => {
            layers.push(band(channels, mark, (low, high)));
        }
    }
    let value = match mark.says {
        Says::Value(y) => Some(y),
        _ => None,
    };
    let numbers: Vec<f64> = [value, low, high].into_iter().flatten().collect();
    let mut values = Vec::new();
    for y in numbers {
        let mut datum = mark.datum();
        datum.insert("value".into(), json!(round(y)));
        values.push(Value::Object(datum));
    }
    let mut encoding = channels.at(mark);
    match mark.says {
        Says::Here => {
            // A number has a diamond at its height, a mere place has it at the top.
            values.push(Value::Object(mark.datum()));
            encoding.insert("y".into(), json!({"value": 5}));
        }
        _ => drop(encoding.insert("y".into(), Channels::field(channels.y.clone(), "value"))),
    }
    let scale = json!({"domain": ["published"], "range": ["diamond"]});
    // A diamond whose edge has the colour of its line has an edge without colour in the legend.
    let legend = match encoding.contains_key("stroke") {
        true => json!({"symbolStrokeColor": "#787878"}),
        false => json!({}),
    };
    let shape = json!({"datum": "published", "type": "nominal", "scale": scale, "legend": legend});
    encoding.insert("shape".into(), shape);
    let diamond = json!({
        "type": "point", "style": "published", "size": DIAMOND, "opacity": 1,
        "strokeWidth": 1.5, "tooltip": {"content": "data"},
    });
    layers.push(layer(&values, diamond, encoding));
    layers
}

/// The band between two ends; an end that is missing is the edge of the plot.
fn band(channels: &Channels, mark: &Mark, (low, high): (Option<f64>, Option<f64>)) -> Value {
    let mut datum = mark.datum();
    let mut encoding = channels.at(mark);
    let edges = [
        ("y", "low", low, json!("height")),
        ("y2", "high", high, json!(0)),
    ];
    for (channel, field, end, edge) in edges {
        let end = match end {
            Some(end) => {
                datum.insert(field.into(), json!(round(end)));
                match channel {
                    "y" => Channels::field(channels.y.clone(), field),
                    _ => json!({"field": field}),
                }
            }
            None => json!({"value": edge}),
        };
        encoding.insert(channel.into(), end);
    }
    // What is open below is told from its upper end, so that the axis of values is known.
    if low.is_none() {
        let upper = Channels::field(channels.y.clone(), "high");
        encoding.insert("y".into(), upper);
        encoding.insert("y2".into(), json!({"value": "height"}));
    }
    let tooltip = json!({"content": "data"});
    let shape = match mark.at {
        At::All => {
            encoding.insert("x".into(), json!({"value": 0}));
            encoding.insert("x2".into(), json!({"value": "width"}));
            json!({"type": "rect", "style": "agrees", "opacity": 0.18, "tooltip": tooltip})
        }
        At::Group(_) | At::X(_) => json!({
            "type": "rule", "style": "agrees", "strokeWidth": 5, "opacity": 0.45, "tooltip": tooltip,
        }),
    };
    layer(&[Value::Object(datum)], shape, encoding)
}

/// A line over the whole width.
fn level(channels: &Channels, mark: &Mark, y: f64) -> Value {
    let mut datum = mark.datum();
    datum.insert("value".into(), json!(round(y)));
    let mut encoding = Map::new();
    encoding.insert("y".into(), Channels::field(channels.y.clone(), "value"));
    let rule = json!({"type": "rule", "style": "level", "strokeDash": [5, 3], "tooltip": {"content": "data"}});
    layer(&[Value::Object(datum)], rule, encoding)
}

/// A place: a group from top to bottom, or a line at a number.
fn place(channels: &Channels, mark: &Mark) -> Value {
    let mut encoding = Map::new();
    encoding.insert("x".into(), Channels::field(channels.x.clone(), "at"));
    let shape = match mark.at {
        At::Group(_) => {
            json!({"type": "rect", "style": "agrees", "opacity": 0.18, "tooltip": {"content": "data"}})
        }
        At::X(_) | At::All => {
            json!({"type": "rule", "style": "level", "strokeDash": [5, 3], "tooltip": {"content": "data"}})
        }
    };
    layer(&[Value::Object(mark.datum())], shape, encoding)
}

impl Plot {
    /// The plot with published values over the measured ones. It is for bars and lines.
    ///
    /// # Panics
    /// The plot is none of bars or lines, or has published values already.
    #[must_use]
    pub fn beside(mut self, marks: &[Mark]) -> Plot {
        if marks.is_empty() {
            return self;
        }
        let channels = Channels::of(&self.spec);
        let spec = self
            .spec
            .as_object_mut()
            .expect("a specification is an object");
        let mark = spec.remove("mark").expect("bars and lines have one mark");
        let encoding = spec.remove("encoding").expect("marks have channels");
        let below = json!({"mark": mark, "encoding": encoding});
        let above = marks.iter().flat_map(|mark| layers(&channels, mark));
        let all: Vec<Value> = [below].into_iter().chain(above).collect();
        spec.insert("layer".into(), all.into());
        self.points.extend(marks.iter().map(Mark::point));
        self.has_marks = true;
        self
    }

    /// The published values as a table for those who cannot see them.
    pub(super) fn published_table(&self) -> Markup {
        let said = self.points.iter().filter(|point| point.published);
        let all: Vec<&PlotPoint> = said.collect();
        scrolled(&html! {
            table {
                thead { tr { @for h in ["published", "at", "of", "value"] { th scope="col" { (h) } } } }
                tbody { @for point in all { tr {
                    th.text scope="row" { (point.what.as_deref().unwrap_or_default()) }
                    td { (point.place()) }
                    td { (point.series.as_deref().unwrap_or_default()) }
                    td { (point.says()) }
                } } }
            }
        })
    }

    /// Whether it shows any published value.
    pub fn has_published(&self) -> bool {
        self.points.iter().any(|point| point.published)
    }

    /// All its values, measured and published.
    pub fn points(&self) -> &[PlotPoint] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::super::{cdf, grouped_bars, lines};
    use super::*;

    fn mark(series: Option<&str>, at: At, says: Says) -> Mark {
        Mark {
            what: "Fig 1: a <gain>".into(),
            series: series.map(String::from),
            at,
            says,
        }
    }

    fn bars() -> Plot {
        let groups = ["g", "h"].map(String::from);
        let series = [
            ("s".to_string(), vec![1.0, 2.0]),
            ("t".to_string(), vec![3.0, 4.0]),
        ];
        grouped_bars("t", "x", &groups, &series)
    }

    fn layers_of(plot: &Plot) -> Vec<Value> {
        let layers = plot.spec()["layer"].as_array();
        layers.expect("layers").clone()
    }

    #[test]
    fn a_published_number_is_a_diamond_on_its_bar() {
        let plot = bars();
        assert!(!plot.has_published() && plot.spec().get("layer").is_none());
        let at = At::Group("h".into());
        let plot = plot.beside(&[mark(Some("t"), at, Says::Value(3.5))]);
        assert!(plot.has_published() && plot.spec().get("mark").is_none());
        let layers = layers_of(&plot);
        assert_eq!(layers.len(), 2, "bars and the diamond");
        let diamond = &layers[1];
        let datum = &diamond["data"]["values"][0];
        assert_eq!(
            (&datum["at"], &datum["series"], &datum["value"]),
            (&json!("h"), &json!("t"), &json!(3.5))
        );
        assert_eq!(diamond["encoding"]["xOffset"]["field"], "series");
        let page = plot.figure("c").into_string();
        assert!(page.contains("Fig 1: a &lt;gain&gt;") && page.contains("<td>3.500</td>"));
        let point = plot.points().last().expect("a point");
        assert_eq!((point.published, point.y), (true, Some(3.5)));
        assert_eq!(plot.points().len(), 5, "four bars and a diamond");
    }

    #[test]
    fn a_range_is_a_band_and_an_open_end_goes_to_the_edge() {
        let at = || At::Group("g".into());
        for (says, y, y2) in [
            (
                Says::Range(1.0, 2.0),
                json!("low"),
                json!({"field": "high"}),
            ),
            (Says::Least(1.0), json!("low"), json!({"value": 0})),
            (Says::Most(2.0), json!("high"), json!({"value": "height"})),
        ] {
            let layers = layers_of(&bars().beside(&[mark(Some("s"), at(), says)]));
            let band = &layers[1]["encoding"];
            assert_eq!((&band["y"]["field"], &band["y2"]), (&y, &y2), "{says:?}");
            let numbers = layers[2]["data"]["values"].as_array().map(Vec::len);
            let wanted = if says.ends().0.and(says.ends().1).is_some() {
                2
            } else {
                1
            };
            assert_eq!(numbers, Some(wanted), "a diamond for each number");
        }
    }

    #[test]
    fn what_holds_for_all_is_a_line_and_a_place_needs_no_number() {
        let line = [("a".to_string(), vec![(0.0, 1.0), (9.0, 2.0)])];
        let plot = lines("t", ("s", "ms"), &line);
        let plot = plot.beside(&[
            mark(None, At::All, Says::Value(1.5)),
            mark(Some("a"), At::X(4.0), Says::Here),
        ]);
        let layers = layers_of(&plot);
        let kinds: Vec<&Value> = layers.iter().map(|layer| &layer["mark"]["type"]).collect();
        assert_eq!(kinds, ["line", "rule", "point", "rule", "point"]);
        assert_eq!(layers[2]["encoding"]["x"], json!({"value": "width"}));
        assert_eq!(layers[3]["data"]["values"][0]["at"], json!(4.0));
        let said: Vec<String> = plot.points()[2..].iter().map(PlotPoint::says).collect();
        assert_eq!(said, ["1.500", "here"]);
    }

    #[test]
    fn the_axis_of_values_is_that_of_the_measured_ones() {
        let line = [("a".to_string(), vec![(2.0, 0.5), (900.0, 1.0)])];
        let plot = cdf("t", "us", &line);
        let axis = plot.spec()["encoding"]["y"]["scale"].clone();
        let plot = plot.beside(&[mark(None, At::X(41.0), Says::Least(0.8))]);
        for layer in layers_of(&plot) {
            let y = &layer["encoding"]["y"];
            assert!(y["scale"] == axis || y.get("value").is_some(), "{layer}");
        }
    }

    #[test]
    fn turning_swaps_what_is_least_and_what_is_most() {
        let left = |x| 1.0 - x;
        assert_eq!(Says::Range(0.25, 0.5).turned(left), Says::Range(0.5, 0.75));
        assert_eq!(Says::Least(0.25).turned(left), Says::Most(0.75));
        assert_eq!(Says::Most(0.25).turned(left), Says::Least(0.75));
        assert_eq!(Says::Value(0.25).map(|x| x * 100.0), Says::Value(25.0));
    }

    #[test]
    fn no_marks_leave_the_plot_as_it_was() {
        assert_eq!(bars().beside(&[]), bars());
    }
}
