//! Nonlinear least squares with lower bounds of zero: which values of the parameters make the
//! predictions agree with what was measured.
//!
//! The method is that of Gauss and Newton: the predictions are nearly linear in each parameter
//! (they are sums of costs), so a few steps are enough. The linear algebra is `nalgebra`'s.

use nalgebra::{DMatrix, DVector};

/// Steps at most. Sums of costs need two or three.
const STEPS: usize = 12;
/// A step that improves the sum of squares by less than this share is the last.
const ENOUGH: f64 = 1e-5;
/// How often a step that makes it worse is halved.
const HALVINGS: usize = 6;
/// Weight of the wish to stay at the start, in steps of so many times `small`. It only decides
/// where nothing measured does.
const LEASH: f64 = 1e3;

/// One parameter of a search. It is never negative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Parameter {
    /// Where to begin.
    pub start: f64,
    /// An amount that matters.
    pub small: f64,
}

impl Parameter {
    /// The length of a trial step from `x`.
    fn step(&self, x: f64) -> f64 {
        (x * 0.1).max(self.small)
    }
}

/// What a search found.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Found {
    /// The parameters.
    pub at: Vec<f64>,
    /// Half the length of the interval of 95 % of each, from the spread of the measurements and
    /// from what the predictions miss.
    pub half: Vec<f64>,
    /// The same as if the predictions missed nothing: how far the measurements leave it open.
    pub open: Vec<f64>,
    /// The predictions there.
    pub predicted: Vec<f64>,
    /// The sum of squares of the differences, each divided by its standard deviation.
    pub squares: f64,
}

/// Looks for the parameters whose predictions come nearest to `measured`, where a difference counts
/// in units of `sigma`.
pub(crate) fn search<E>(
    parameters: &[Parameter],
    measured: &[f64],
    sigma: &[f64],
    mut predict: impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> Result<Found, E> {
    let residuals = |predicted: &[f64]| {
        let each = measured.iter().zip(sigma).zip(predicted);
        DVector::from_iterator(measured.len(), each.map(|((m, s), p)| (p - m) / s))
    };
    let mut at: Vec<f64> = parameters.iter().map(|p| p.start.max(0.0)).collect();
    let mut predicted = predict(&at)?;
    let mut r = residuals(&predicted);
    let mut slopes = DMatrix::zeros(measured.len(), at.len());
    for _ in 0..STEPS {
        slopes = jacobian(parameters, &at, &predicted, sigma, &mut predict)?;
        let step = bounded_step(parameters, &at, &slopes, &r);
        let before = r.norm_squared();
        let mut length = 1.0;
        let mut better = false;
        for _ in 0..HALVINGS {
            let next: Vec<f64> = at
                .iter()
                .zip(step.iter())
                .map(|(x, d)| (x + d * length).max(0.0))
                .collect();
            let there = predict(&next)?;
            let r_there = residuals(&there);
            if r_there.norm_squared() < before {
                (at, predicted, r, better) = (next, there, r_there, true);
                break;
            }
            length /= 2.0;
        }
        if !better || before - r.norm_squared() < ENOUGH * before {
            break;
        }
    }
    let open = halves(parameters, &slopes);
    let freedom = measured.len().saturating_sub(at.len()).max(1) as f64;
    let spread = (r.norm_squared() / freedom).max(1.0).sqrt();
    Ok(Found {
        half: open.iter().map(|half| half * spread).collect(),
        open,
        squares: r.norm_squared(),
        at,
        predicted,
    })
}

/// How each prediction changes with each parameter, in standard deviations.
fn jacobian<E>(
    parameters: &[Parameter],
    at: &[f64],
    predicted: &[f64],
    sigma: &[f64],
    predict: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> Result<DMatrix<f64>, E> {
    let mut slopes = DMatrix::zeros(predicted.len(), at.len());
    for (j, parameter) in parameters.iter().enumerate() {
        let step = parameter.step(at[j]);
        let mut there = at.to_vec();
        there[j] += step;
        for (i, p) in predict(&there)?.iter().enumerate() {
            slopes[(i, j)] = (p - predicted[i]) / step / sigma[i];
        }
    }
    Ok(slopes)
}

/// The step to the least squares of the linear problem that leaves no parameter below zero.
fn bounded_step(
    parameters: &[Parameter],
    at: &[f64],
    slopes: &DMatrix<f64>,
    r: &DVector<f64>,
) -> Vec<f64> {
    let mut fixed: Vec<Option<f64>> = vec![None; at.len()];
    loop {
        let step = linear_step(parameters, at, slopes, r, &fixed);
        let below = (0..at.len()).find(|j| fixed[*j].is_none() && at[*j] + step[*j] < -1e-9);
        match below {
            Some(j) => fixed[j] = Some(-at[j]),
            None => return step,
        }
    }
}

/// The same without bounds, where some parameters have a step that is given.
fn linear_step(
    parameters: &[Parameter],
    at: &[f64],
    slopes: &DMatrix<f64>,
    r: &DVector<f64>,
    fixed: &[Option<f64>],
) -> Vec<f64> {
    let given = DVector::from_iterator(at.len(), fixed.iter().map(|d| d.unwrap_or(0.0)));
    let rest = r + slopes * &given;
    let free: Vec<usize> = (0..at.len()).filter(|j| fixed[*j].is_none()).collect();
    let inner = slopes.select_columns(&free);
    let mut normal = inner.transpose() * &inner;
    let mut side = -(inner.transpose() * rest);
    for (k, j) in free.iter().enumerate() {
        let weight = leash(&parameters[*j]);
        normal[(k, k)] += weight;
        side[k] += weight * (parameters[*j].start - at[*j]);
    }
    let mut step: Vec<f64> = given.iter().copied().collect();
    // The leash makes the matrix positive definite, so that it always has this decomposition.
    if let Some(solved) = normal.cholesky().map(|c| c.solve(&side)) {
        for (k, j) in free.iter().enumerate() {
            step[*j] = solved[k];
        }
    }
    step
}

fn leash(parameter: &Parameter) -> f64 {
    let long = LEASH * parameter.start.max(parameter.small);
    1.0 / (long * long)
}

/// Half the intervals of 95 %, from the covariance.
fn halves(parameters: &[Parameter], slopes: &DMatrix<f64>) -> Vec<f64> {
    let mut normal = slopes.transpose() * slopes;
    for (j, parameter) in parameters.iter().enumerate() {
        normal[(j, j)] += leash(parameter);
    }
    let Some(inverse) = normal.cholesky().map(|c| c.inverse()) else {
        return vec![f64::INFINITY; parameters.len()];
    };
    let variance = inverse.diagonal();
    variance.iter().map(|v| 1.96 * v.sqrt()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn costs(x: &[f64]) -> Result<Vec<f64>, Infallible> {
        Ok([4.0, 16.0, 64.0, 256.0].map(|n| x[0] + x[1] * n).to_vec())
    }

    #[test]
    fn a_line_is_found_and_its_interval_contains_it() {
        let start = [
            Parameter {
                start: 1.0,
                small: 2.0,
            },
            Parameter {
                start: 1.0,
                small: 0.1,
            },
        ];
        let mut measured = costs(&[125.0, 3.5]).unwrap();
        measured[1] *= 1.01;
        let sigma: Vec<f64> = measured.iter().map(|m| m * 0.01).collect();
        let found = search(&start, &measured, &sigma, costs).unwrap();
        for (j, want) in [125.0, 3.5].into_iter().enumerate() {
            let off = (found.at[j] - want).abs();
            assert!(off <= found.half[j] && off < 0.03 * want, "{found:?}");
        }
    }

    #[test]
    fn what_nothing_shows_stays_at_its_start_with_a_wide_interval() {
        let hidden = |x: &[f64]| costs(&x[..2]);
        let p = |start| Parameter { start, small: 1.0 };
        let measured = costs(&[100.0, 2.0]).unwrap();
        let found = search(&[p(50.0), p(1.0), p(77.0)], &measured, &[1.0; 4], hidden).unwrap();
        assert!(
            (found.at[2] - 77.0).abs() < 1e-6 && found.open[2] > 1e3,
            "{found:?}"
        );
        assert!((found.at[0] - 100.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn no_parameter_becomes_negative_and_the_others_make_the_best_of_it() {
        let p = |start| Parameter { start, small: 1.0 };
        let measured = [-8.0, 4.0, 52.0, 244.0];
        let found = search(&[p(10.0), p(1.0)], &measured, &[1.0; 4], costs).unwrap();
        assert_eq!(found.at[0], 0.0);
        // The least squares of a line through the origin.
        let n = [4.0, 16.0, 64.0, 256.0];
        let top: f64 = n.iter().zip(&measured).map(|(n, m)| n * m).sum();
        let want = top / n.iter().map(|n| n * n).sum::<f64>();
        assert!((found.at[1] - want).abs() < 1e-3, "{found:?} {want}");
    }
}
