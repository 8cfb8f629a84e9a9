//! Plots as SVG text, drawn with `plotters`. Colours and order depend on the data only, so that
//! equal results give equal bytes.

use plotters::prelude::*;

/// Size of every plot, pixels.
const SIZE: (u32, u32) = (760, 360);
/// Colours in the order in which they are used: those of Okabe and Ito, which colour-blind readers
/// can tell apart.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(240, 228, 66),
    RGBColor(120, 120, 120),
];

type PlotResult = Result<String, Box<dyn std::error::Error>>;

fn colour(n: usize) -> RGBColor {
    COLOURS[n % COLOURS.len()]
}

/// The largest value with some room above it, at least above zero.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    let max = values.fold(0.0, f64::max);
    if max > 0.0 { max * 1.12 } else { 1.0 }
}

/// Draws one bar per scheme, made of parts stacked from the bottom. `parts` names the parts; each
/// bar has as many values.
pub fn stacked_bars(
    title: &str,
    unit: &str,
    parts: &[String],
    bars: &[(String, Vec<f64>)],
) -> PlotResult {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let high = top(bars.iter().map(|(_, values)| values.iter().sum()));
        // With several parts a free quarter of the width at the end keeps the legend off the bars.
        let empty = if parts.len() > 1 {
            bars.len().div_ceil(3)
        } else {
            0
        };
        let places = bars.len() + empty;
        let last = places.saturating_sub(1) as u32;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(32)
            .y_label_area_size(76)
            .build_cartesian_2d((0..last).into_segmented(), 0.0..high)?;
        let name = |at: &SegmentValue<u32>| match at {
            SegmentValue::CenterOf(n) => bars
                .get(*n as usize)
                .map_or_else(String::new, |b| b.0.clone()),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_desc(unit)
            .x_labels(places)
            .x_label_formatter(&name)
            .label_style(("sans-serif", 13))
            .draw()?;
        for (p, part) in parts.iter().enumerate() {
            let rectangles = bars.iter().enumerate().map(|(n, (_, values))| {
                let low: f64 = values[..p].iter().sum();
                let n = n as u32;
                let corners = [
                    (SegmentValue::Exact(n), low),
                    (SegmentValue::Exact(n + 1), low + values[p]),
                ];
                let mut bar = Rectangle::new(corners, colour(p).filled());
                bar.set_margin(0, 0, 30, 30);
                bar
            });
            chart
                .draw_series(rectangles)?
                .label(part)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour(p).filled())
                });
        }
        if parts.len() > 1 {
            legend(&mut chart, SeriesLabelPosition::MiddleRight)?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Draws groups of bars side by side: each series has one value per group; negative values hang
/// below the axis.
pub fn grouped_bars(
    title: &str,
    unit: &str,
    groups: &[String],
    series: &[(String, Vec<f64>)],
) -> PlotResult {
    /// Share of the width of a group that its bars take.
    const FILLED: f64 = 0.84;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let all = || series.iter().flat_map(|(_, values)| values.iter().copied());
        // The legend needs room above the bars.
        let high = top(all()) * (1.0 + 0.1 * series.len() as f64);
        let low = all().fold(0.0, f64::min) * 1.12;
        let places = groups.len().max(1);
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(32)
            .y_label_area_size(76)
            .build_cartesian_2d((-0.5)..(places as f64 - 0.5), low..high)?;
        let name = |at: &f64| match at.round() {
            n if (at - n).abs() < 1e-6 && n >= 0.0 => {
                groups.get(n as usize).cloned().unwrap_or_default()
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_desc(unit)
            .x_labels(places * 2)
            .x_label_formatter(&name)
            .label_style(("sans-serif", 12))
            .draw()?;
        let width = FILLED / series.len().max(1) as f64;
        for (s, (label, values)) in series.iter().enumerate() {
            let bars = values.iter().enumerate().map(|(n, value)| {
                let left = n as f64 - FILLED / 2.0 + s as f64 * width;
                Rectangle::new([(left, 0.0), (left + width, *value)], colour(s).filled())
            });
            chart.draw_series(bars)?.label(label).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour(s).filled())
            });
        }
        if series.len() > 1 {
            legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// The corners of a distribution drawn as steps, as nothing completes between two latencies.
fn steps(points: &[(f64, f64)], low: f64) -> Vec<(f64, f64)> {
    let mut corners = vec![(low, 0.0)];
    for &(x, y) in points {
        let before = corners.last().map_or(0.0, |c| c.1);
        corners.extend([(x.max(low), before), (x.max(low), y)]);
    }
    corners
}

/// Draws cumulative distributions, one line per scheme. The axis is logarithmic and begins at one
/// microsecond; shorter latencies are drawn there.
pub fn cdf(title: &str, unit: &str, lines: &[(String, Vec<(f64, f64)>)]) -> PlotResult {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let all = || {
            lines
                .iter()
                .flat_map(|(_, points)| points.iter().map(|p| p.0))
        };
        let low = all().fold(f64::INFINITY, f64::min).clamp(1.0, 1e9);
        let high = all().fold(low * 2.0, f64::max) * 1.2;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(56)
            .build_cartesian_2d((low..high).log_scale(), 0.0..1.02)?;
        chart
            .configure_mesh()
            .x_desc(unit)
            .y_desc("fraction at or below")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .label_style(("sans-serif", 13))
            .draw()?;
        for (n, (name, points)) in lines.iter().enumerate() {
            chart
                .draw_series(LineSeries::new(
                    steps(points, low),
                    colour(n).stroke_width(2),
                ))?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], colour(n).stroke_width(2))
                });
        }
        // Few calls are fast, so the curves leave this corner free.
        legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
        area.present()?;
    }
    Ok(svg)
}

/// Draws the slow end of distributions: the fraction of operations that took longer than a latency,
/// on two logarithmic axes. Each system has one line, which its slowest operation ends at the
/// fraction of a single operation.
pub fn tail(title: &str, unit: &str, lines: &[(String, Vec<(f64, f64)>)]) -> PlotResult {
    const LEAST: f64 = 1e-6;
    let all = || lines.iter().flat_map(|(_, points)| points.iter());
    let low = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let low = low.clamp(0.1, 1e9);
    let high = all().map(|p| p.0).fold(low * 2.0, f64::max) * 1.2;
    let least = all().map(|p| 1.0 - p.1).filter(|left| *left > LEAST);
    let least = least.fold(1e-2, f64::min);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(76)
            .build_cartesian_2d((low..high).log_scale(), (least / 2.0..1.2).log_scale())?;
        chart
            .configure_mesh()
            .x_desc(unit)
            .y_desc("fraction that took longer")
            .y_label_formatter(&|y| format!("{y:e}"))
            .label_style(("sans-serif", 13))
            .draw()?;
        for (n, (name, points)) in lines.iter().enumerate() {
            let corners = steps(points, low).into_iter();
            let line = corners.map(|(x, y)| (x, (1.0 - y).max(least / 2.0)));
            chart
                .draw_series(LineSeries::new(line, colour(n).stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], colour(n).stroke_width(2))
                });
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)?;
        area.present()?;
    }
    Ok(svg)
}

/// Draws one line per system over a linear axis. The axis of values is logarithmic if they span
/// more than two orders of magnitude, and then begins at a thousandth of the largest.
pub fn lines(
    title: &str,
    (x_unit, y_unit): (&str, &str),
    all: &[(String, Vec<(f64, f64)>)],
) -> PlotResult {
    let points = || all.iter().flat_map(|(_, points)| points.iter().copied());
    let high = top(points().map(|p| p.1));
    let right = points().map(|p| p.0).fold(0.0, f64::max).max(1e-9);
    let least = points().map(|p| p.1).filter(|y| *y > 0.0);
    let low = least.fold(high, f64::min);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&area);
        builder
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(76);
        match high / low > 100.0 {
            true => {
                let low = low.max(high / 1e6);
                // The legend needs room above the lines.
                let axis = (low..high * 4.0).log_scale();
                let chart = builder.build_cartesian_2d(0.0..right, axis)?;
                drawn(chart, (x_unit, y_unit), all, low)?;
            }
            false => {
                let chart = builder.build_cartesian_2d(0.0..right, 0.0..high * 1.3)?;
                drawn(chart, (x_unit, y_unit), all, 0.0)?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}

/// Draws lines; values below `low` are drawn at `low`.
fn drawn<'a, Y>(
    mut chart: ChartContext<
        'a,
        SVGBackend<'a>,
        Cartesian2d<plotters::coord::types::RangedCoordf64, Y>,
    >,
    (x_unit, y_unit): (&str, &str),
    all: &[(String, Vec<(f64, f64)>)],
    low: f64,
) -> Result<(), Box<dyn std::error::Error>>
where
    Y: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc(x_unit)
        .y_desc(y_unit)
        .label_style(("sans-serif", 13))
        .draw()?;
    for (n, (name, points)) in all.iter().enumerate() {
        let line = points.iter().map(|&(x, y)| (x, y.max(low)));
        chart
            .draw_series(LineSeries::new(line, colour(n).stroke_width(1)))?
            .label(name)
            .legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 16, y)], colour(n).stroke_width(2))
            });
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

fn legend<'a, X: Ranged, Y: Ranged>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    place: SeriesLabelPosition,
) -> Result<(), Box<dyn std::error::Error>> {
    chart
        .configure_series_labels()
        .position(place)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .label_font(("sans-serif", 13))
        .draw()
        .map_err(|e| e.to_string().into())
}
