//! Values of attributes in a `.f` file: numbers with units, words, and random variables.

use super::error::{Fault, fault};
use base::Rng;

/// The value of a variable or an attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A whole number; in bytes where it is a size.
    Int(u64),
    /// A name, a path, or a number with a fraction.
    Text(String),
    /// `true`, `false`, or an attribute without a value.
    Bool(bool),
    /// Drawn anew at each use.
    Random(Random),
}

/// A number that is fixed, or drawn at each use.
#[derive(Clone, PartialEq, Debug)]
pub enum Amount {
    /// A fixed number.
    Fixed(u64),
    /// Drawn anew at each use.
    Random(Random),
}

/// Largest number in a model, sizes in bytes: 16 TiB.
pub const INT_MAX: u64 = 1 << 44;

impl Value {
    /// Parses a word.
    pub fn of_word(word: &str) -> Value {
        match word {
            "true" | "yes" => Value::Bool(true),
            "false" | "no" => Value::Bool(false),
            _ => whole(word).map_or_else(|| Value::Text(word.into()), Value::Int),
        }
    }

    /// The value as a whole number, if it is one.
    pub fn int(&self) -> Option<u64> {
        match self {
            Value::Int(n) => Some(*n),
            Value::Bool(b) => Some(u64::from(*b)),
            _ => None,
        }
    }

    /// The value as text, for messages.
    pub fn text(&self) -> String {
        match self {
            Value::Int(n) => n.to_string(),
            Value::Text(text) => text.clone(),
            Value::Bool(b) => b.to_string(),
            Value::Random(random) => format!("a random variable of mean {}", random.mean()),
        }
    }
}

/// Parses a whole number with a unit behind it: `k`, `m`, `g`, `t` for KiB to TiB.
fn whole(word: &str) -> Option<u64> {
    let (digits, shift) = match word.as_bytes().last()? {
        b'k' | b'K' => (&word[..word.len() - 1], 10),
        b'm' | b'M' => (&word[..word.len() - 1], 20),
        b'g' | b'G' => (&word[..word.len() - 1], 30),
        b't' | b'T' => (&word[..word.len() - 1], 40),
        _ => (word, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    // Digits that do not fit are no number.
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Amount {
    /// The fixed number, or one that is drawn.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Amount::Fixed(n) => *n,
            Amount::Random(random) => random.draw(rng),
        }
    }

    /// The fixed number, or the largest that may be drawn.
    pub fn most(&self) -> u64 {
        match self {
            Amount::Fixed(n) => *n,
            Amount::Random(random) => random.max,
        }
    }
}

/// The distribution of a random variable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Shape {
    /// A gamma distribution, by its mean and its shape.
    Gamma {
        /// Mean.
        mean: f64,
        /// Shape; Filebench calls it `gamma`.
        shape: f64,
    },
    /// A uniform distribution.
    Uniform {
        /// Least value.
        lower: f64,
        /// Largest value.
        upper: f64,
    },
    /// A normal distribution.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sigma: f64,
    },
    /// An exponential distribution.
    Exponential {
        /// Mean.
        mean: f64,
    },
}

/// A random variable of whole numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Random {
    /// Its distribution.
    pub shape: Shape,
    /// A smaller value becomes this.
    pub min: u64,
    /// A larger value becomes this.
    pub max: u64,
    /// Values are rounded to multiples of this; with 0 and 1 they are any whole number.
    pub round: u64,
}

impl Random {
    /// A gamma distribution with this mean, cut off at ten times the mean.
    pub fn gamma(mean: u64, shape: f64) -> Random {
        Random {
            shape: Shape::Gamma {
                mean: mean as f64,
                shape,
            },
            min: 0,
            max: mean.saturating_mul(TAIL),
            round: 0,
        }
    }

    /// The mean of the distribution, without regard to the bounds.
    pub fn mean(&self) -> f64 {
        match self.shape {
            Shape::Gamma { mean, .. } | Shape::Normal { mean, .. } => mean,
            Shape::Exponential { mean } => mean,
            Shape::Uniform { lower, upper } => (lower + upper) / 2.0,
        }
    }

    /// Draws a value.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let real = match self.shape {
            Shape::Gamma { mean, shape } => gamma(rng, shape) * mean / shape,
            Shape::Uniform { lower, upper } => lower + unit(rng) * (upper - lower),
            Shape::Normal { mean, sigma } => mean + sigma * normal(rng),
            Shape::Exponential { mean } => -mean * libm::log(1.0 - unit(rng)),
        };
        // A cast of a float saturates, and turns NaN into 0.
        let whole = ((real + 0.5) as u64).clamp(self.min, self.max.max(self.min));
        match self.round {
            0 | 1 => whole,
            round => (whole / round * round).clamp(self.min, self.max.max(self.min)),
        }
    }

    /// Refuses parameters that make no distribution.
    ///
    /// # Errors
    /// Names the parameter, at `line`.
    pub fn checked(self, line: u32) -> Result<Random, Fault> {
        let good = |x: f64| x.is_finite() && (0.0..=INT_MAX as f64).contains(&x);
        let fits = match self.shape {
            Shape::Gamma { mean, shape } => good(mean) && (0.01..=1000.0).contains(&shape),
            Shape::Uniform { lower, upper } => good(lower) && good(upper) && lower <= upper,
            Shape::Normal { mean, sigma } => good(mean) && good(sigma),
            Shape::Exponential { mean } => good(mean),
        };
        if fits && self.min <= self.max && self.max <= INT_MAX {
            return Ok(self);
        }
        let what = format!(
            "{:?} from {} to {} is no distribution: means and bounds from 0 to {INT_MAX}, lower at most upper, a gamma \
             from 0.01 to 1000",
            self.shape, self.min, self.max
        );
        Err(fault(line, what))
    }
}

/// A drawn value is at most this many means: of a gamma with shape 1.5 less than one value in a
/// hundred thousand is larger.
pub const TAIL: u64 = 10;

/// A random number from 0 to below 1.
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws from the standard normal distribution, by Marsaglia's polar method.
fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * libm::sqrt(-2.0 * libm::log(square) / square);
        }
    }
}

/// Draws from a gamma distribution of scale 1: Marsaglia and Tsang, "A simple method for generating
/// gamma variables", ACM TOMS 26 (2000).
fn gamma(rng: &mut Rng, shape: f64) -> f64 {
    if shape < 1.0 {
        let below = unit(rng).max(f64::MIN_POSITIVE);
        return gamma(rng, shape + 1.0) * libm::pow(below, 1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(rng);
        let v = libm::pow(1.0 + c * x, 3.0);
        if v > 0.0 {
            let limit = 0.5 * x * x + d - d * v + d * libm::log(v);
            if libm::log(1.0 - unit(rng)) < limit {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_nonsense_has_none() {
        for (word, value) in [
            ("16k", Value::Int(16 << 10)),
            ("1M", Value::Int(1 << 20)),
            ("2g", Value::Int(2 << 30)),
            ("0", Value::Int(0)),
            ("true", Value::Bool(true)),
            ("1.5", Value::Text("1.5".into())),
            (
                "99999999999999999999",
                Value::Text("99999999999999999999".into()),
            ),
            ("k", Value::Text("k".into())),
            ("-1", Value::Text("-1".into())),
        ] {
            assert_eq!(Value::of_word(word), value, "{word}");
        }
    }

    #[test]
    fn draws_have_the_mean_and_the_deviation_of_their_distribution() {
        let mut rng = Rng::named(1, "amount");
        for (shape, deviation) in [
            (
                Shape::Gamma {
                    mean: 9000.0,
                    shape: 1.5,
                },
                9000.0 / libm::sqrt(1.5),
            ),
            (
                Shape::Gamma {
                    mean: 9000.0,
                    shape: 0.7,
                },
                9000.0 / libm::sqrt(0.7),
            ),
            (
                Shape::Uniform {
                    lower: 6000.0,
                    upper: 12000.0,
                },
                6000.0 / libm::sqrt(12.0),
            ),
            (
                Shape::Normal {
                    mean: 9000.0,
                    sigma: 500.0,
                },
                500.0,
            ),
            (Shape::Exponential { mean: 9000.0 }, 9000.0),
        ] {
            let random = Random {
                shape,
                min: 0,
                max: INT_MAX,
                round: 0,
            };
            let n = 40_000;
            let draws: Vec<f64> = (0..n).map(|_| random.draw(&mut rng) as f64).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(n);
            let square = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
            let sd = libm::sqrt(square / f64::from(n));
            assert!((mean / 9000.0 - 1.0).abs() < 0.02, "{shape:?}: mean {mean}");
            assert!(
                (sd / deviation - 1.0).abs() < 0.04,
                "{shape:?}: deviation {sd}"
            );
        }
        let rounded = Random {
            round: 512,
            min: 512,
            max: 1024,
            ..Random::gamma(700, 1.5)
        };
        let draws: base::Set<u64> = (0..100).map(|_| rounded.draw(&mut rng)).collect();
        assert_eq!(draws.len(), 2);
    }
}
