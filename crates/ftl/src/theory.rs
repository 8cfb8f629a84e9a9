//! Closed forms of write amplification, for uniform random writes.
//!
//! alpha is the number of slots that can hold data (without those kept free) by the number of units
//! that are mapped; rho is alpha - 1. Write amplification A is units programmed per unit written.
//! docs/results/write-amplification.md compares them with [`crate::Counting`].

/// The principal branch of Lambert's W: the w >= -1 with w e^w = x. Halley's iteration, to about
/// 1e-15 except close to -1/e.
///
/// # Panics
/// If x is less than -1/e or no number.
pub fn lambert_w0(x: f64) -> f64 {
    let at_branch = x.mul_add(std::f64::consts::E, 1.0);
    assert!(at_branch > -1e-12, "W0({x}) is not real");
    if at_branch <= 0.0 {
        return -1.0;
    }
    // Below 0 the series about the branch point is a good enough start; beyond, the logarithm.
    let p = (2.0 * at_branch).sqrt();
    let mut w = match x < 0.5 {
        true => -1.0 + p - p * p / 3.0 + 11.0 / 72.0 * p * p * p,
        false => x.ln_1p(),
    };
    for _ in 0..64 {
        let e = w.exp();
        let f = w * e - x;
        let slope = e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0);
        let step = f / slope;
        if !step.is_finite() {
            break;
        }
        w -= step;
        if step.abs() <= 1e-15 * w.abs() {
            break;
        }
    }
    w
}

/// Write amplification of FIFO collection, and of greedy collection when blocks are large: A = 1 /
/// (1 - p) where p = exp(-alpha (1 - p)), that is alpha / (alpha + W0(-alpha e^-alpha)).
pub fn fifo(alpha: f64) -> f64 {
    alpha / (alpha + lambert_w0(-alpha * (-alpha).exp()))
}

/// Write amplification of greedy collection of blocks with `slots` units (the form of Desnoyers,
/// SYSTOR 2012): with k = 1 + 1 / 2 Np and X0 = 1/2 - Np / alpha W0(-k alpha e^(-k alpha)), A = Np
/// / (Np - X0 + 1).
pub fn greedy(alpha: f64, slots: u32) -> f64 {
    let np = f64::from(slots);
    let k = 1.0 + 1.0 / (2.0 * np);
    let x0 = 0.5 - np / alpha * lambert_w0(-k * alpha * (-k * alpha).exp());
    np / (np - x0 + 1.0)
}

/// The older approximation (1 + rho) / 2 rho (Agarwal and Marrow, 2010): low where rho is small.
pub fn agarwal_marrow(alpha: f64) -> f64 {
    alpha / (2.0 * (alpha - 1.0))
}

/// The share of all units that are mapped when one request in 1/`q` is a TRIM of a random unit *in
/// use*, and the others write random units: (1 - 2q) / (1 - q). Divide alpha by it.
pub fn live_share_in_use(q: f64) -> f64 {
    (1.0 - 2.0 * q) / (1.0 - q)
}

/// The share of all units that are mapped when a TRIM hits any unit, in use or not: 1 - q.
pub fn live_share_any(q: f64) -> f64 {
    1.0 - q
}

/// alpha of `slots` of which `idle` are empty on average, and `units` mapped units.
pub fn alpha(slots: u64, idle: f64, units: u64) -> f64 {
    (slots as f64 - idle) / units as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64, digits: i32) {
        let most = 0.5 * 10f64.powi(-digits) * 1.001;
        assert!((got - want).abs() <= most, "{got}, not {want}");
    }

    #[test]
    fn w_undoes_w_e_w() {
        for i in -999..5000 {
            let w = f64::from(i) / 1000.0;
            near(lambert_w0(w * w.exp()), w, 9);
        }
        near(lambert_w0(1.0), 0.567_143_290_409_783_8, 15);
        near(lambert_w0(-std::f64::consts::E.recip()), -1.0, 7);
        assert!(std::panic::catch_unwind(|| lambert_w0(-0.4)).is_err());
    }

    /// Values found by other means: fixed-point iteration, and the published figure 2.36 at rho =
    /// 0.3 (Xiang and Kurkoski, 2011).
    #[test]
    fn amplification_at_known_points() {
        near(fifo(1.3), 2.36, 2);
        near(agarwal_marrow(1.3), 2.17, 2);
        for alpha in [1.02, 1.1, 1.25, 1.4, 2.0] {
            let mut p = 0.5f64;
            (0..200_000).for_each(|_| p = (-alpha * (1.0 - p)).exp());
            near(fifo(alpha), 1.0 / (1.0 - p), 6);
        }
        let (np, a) = (
            [32, 32, 32, 64, 64, 256, 256],
            [1.1, 1.25, 1.4, 1.1, 1.25, 1.1, 1.25],
        );
        let table = [4.870, 2.510, 1.865, 5.242, 2.598, 5.562, 2.668];
        for ((np, a), want) in np.into_iter().zip(a).zip(table) {
            near(greedy(a, np), want, 3);
        }
        near(greedy(1.25, 1 << 20), fifo(1.25), 4);
    }

    #[test]
    fn trims_widen_the_room() {
        let table = [
            (0.0, 2.69),
            (0.1, 1.94),
            (0.2, 1.48),
            (0.3, 1.19),
            (0.4, 1.03),
        ];
        for (q, want) in table {
            near(fifo(1.25 / live_share_in_use(q)), want, 2);
        }
        near(live_share_any(0.25), 0.75, 12);
        near(alpha(1000, 100.0, 600), 1.5, 12);
    }
}
