//! What a plot shows, as plain values for those who draw it elsewhere.

use super::text;
use crate::metrics::round;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One value of a plot. `group` or `x` says where it stands; without either it holds for the whole
/// width.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlotPoint {
    /// Whether a publication says it. Without, it was measured.
    pub published: bool,
    /// The series, as a scheme, the part of a bar, or a line. Absent where a publication speaks of
    /// no series alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// What a publication says, in words; absent where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// The bar or the group of bars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The place on an axis of numbers, in the plot's unit of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// The value, in the plot's unit. Absent where a publication has a range, a bound, or the place
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// The least that a published range or bound allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The most that it allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl PlotPoint {
    /// A measured value of a bar; `None` if it is no number.
    pub(super) fn of_group(series: &str, group: &str, y: f64) -> Option<PlotPoint> {
        y.is_finite().then(|| PlotPoint {
            series: Some(series.into()),
            group: Some(group.into()),
            y: Some(round(y)),
            ..PlotPoint::default()
        })
    }

    /// What is said at the place, as text: a number, a range, a bound, or nothing but the place.
    pub(super) fn says(&self) -> String {
        match (self.y, self.low, self.high) {
            (Some(y), ..) => text(y),
            (None, Some(low), Some(high)) => format!("{} to {}", text(low), text(high)),
            (None, Some(low), None) => format!("at least {}", text(low)),
            (None, None, Some(high)) => format!("at most {}", text(high)),
            (None, None, None) => "here".into(),
        }
    }

    /// Where it stands, as text; empty if it holds for the whole width.
    pub(super) fn place(&self) -> String {
        match (&self.group, self.x) {
            (Some(group), _) => group.clone(),
            (None, Some(x)) => text(x),
            (None, None) => String::new(),
        }
    }

    /// A measured point of a line; `None` if it is no number.
    pub(super) fn of_line(series: &str, (x, y): (f64, f64)) -> Option<PlotPoint> {
        (x.is_finite() && y.is_finite()).then(|| PlotPoint {
            series: Some(series.into()),
            x: Some(round(x)),
            y: Some(round(y)),
            ..PlotPoint::default()
        })
    }
}
