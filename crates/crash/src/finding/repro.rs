//! One line that makes a crash state again: `varve crash --repro 'LINE'`.
//!
//! ```text
//! varve-crash-1 varve=0.1.0 states=2 run=5f0c... scheme=none device=spec:emmc seed=7 state=17.oldest mutant=x workload=...
//! ```
//!
//! The workload stands last and takes the rest of the line. Characters that a shell or a line would
//! change (`'`, `%`, control and non-ASCII characters, a space at the end of the line and in any
//! value but the workload) stand as `%` and two hexadecimal digits for each byte, so the line can
//! be pasted between single quotes.
//!
//! - L1: a field that is missing (only `scheduler` and `mutant` may be) or wrong is refused by its
//!   name; nothing is guessed.
//! - L2: a line of a build that makes another run or numbers states otherwise is refused, because
//!   it would name another state.

use crate::case::Case;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Version of the layout of the line.
pub const FORMAT: u32 = 1;
/// Version of the numbers of moments and of the texts of choices. It counts up whenever a state
/// gets another id.
pub const STATES: u32 = 2;
/// The version of Varve that this build writes into lines.
pub const VARVE: &str = env!("CARGO_PKG_VERSION");

const PREFIX: &str = "varve-crash-";

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repro {
    /// The version of Varve that wrote it.
    pub varve: String,
    /// The [`STATES`] of that version.
    pub states: u32,
    /// Fingerprint of the commands of the run.
    pub run: u64,
    /// Workload, scheme, device, I/O scheduler, seed and mutant.
    pub case: Case,
    /// The crash state: a [`StateId`](crate::case::StateId), or the id of a state of the chips.
    pub state: String,
}

/// Why a line is refused, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReproError {
    /// The text is no line.
    #[error(
        "`{0}` is no reproduction line: one begins with `{PREFIX}{FORMAT} `; copy the whole line of the finding"
    )]
    NoLine(String),
    /// The line has the layout of another version.
    #[error(
        "the line has format {found}, this Varve reads format {FORMAT}: run it with the Varve that wrote it"
    )]
    Format {
        /// What the line says.
        found: String,
    },
    /// A field is missing.
    #[error("the line has no `{0}=`: copy the whole line of the finding")]
    Missing(&'static str),
    /// A field is unknown, comes twice, or cannot be read.
    #[error("`{field}` in the line: {why}")]
    Field {
        /// The field, or what stands in its place.
        field: String,
        /// What is wrong.
        why: String,
    },
    /// The line is of a version that numbers states otherwise.
    #[error(
        "the line is of Varve {varve} (states {states}); this is Varve {VARVE} (states {STATES}), which numbers crash states \
         differently: run it with Varve {varve}, or explore the case anew: {explore}"
    )]
    Version {
        /// What the line says.
        varve: String,
        /// What the line says.
        states: u32,
        /// How to look for the same violation with this build.
        explore: String,
    },
    /// This build makes another run of the case.
    #[error(
        "the run of this build (fingerprint {here:016x}) is not the one of the line ({line:016x}): Varve has changed since, and its \
         states have other numbers; explore the case anew: {explore}"
    )]
    Run {
        /// The fingerprint in the line.
        line: u64,
        /// The fingerprint of this build's run.
        here: u64,
        /// How to look for the same violation with this build.
        explore: String,
    },
    /// The run does not have the state.
    #[error("state `{state}`: {why}")]
    State {
        /// The id of the state.
        state: String,
        /// What does not exist.
        why: String,
    },
    /// The line leaves out a guard, and this build has no mutants.
    #[error(
        "the line leaves out the guard `{0}`, and this build cannot: build with the feature `mutants` (as `cargo xtask mutants` does)"
    )]
    Mutant(String),
    /// The case names something that does not exist.
    #[error("{0}")]
    Case(String),
}

impl Repro {
    /// The line for a state of a run that this build has made.
    pub fn new(case: &Case, run: u64, state: impl fmt::Display) -> Repro {
        Repro {
            varve: VARVE.into(),
            states: STATES,
            run,
            case: case.clone(),
            state: state.to_string(),
        }
    }

    /// Refuses, before anything runs, what this build cannot make again (L2).
    ///
    /// # Errors
    /// [`ReproError::Version`], [`ReproError::Mutant`].
    pub fn check_build(&self) -> Result<(), ReproError> {
        if self.states != STATES {
            return Err(ReproError::Version {
                varve: self.varve.clone(),
                states: self.states,
                explore: explore(&self.case),
            });
        }
        match &self.case.mutant {
            Some(word) if !cfg!(feature = "mutants") => Err(ReproError::Mutant(word.clone())),
            _ => Ok(()),
        }
    }

    /// Refuses a line if this build makes another run of its case (L2).
    ///
    /// # Errors
    /// [`ReproError::Run`].
    pub fn check_run(&self, here: u64) -> Result<(), ReproError> {
        if self.run == here {
            return Ok(());
        }
        Err(ReproError::Run {
            line: self.run,
            here,
            explore: explore(&self.case),
        })
    }

    /// The command that makes the state again, to be copied into a shell.
    pub fn command(&self) -> String {
        format!("varve crash --repro '{self}'")
    }
}

/// The command that explores a case. A case without a guard comes from the catalogue of its mutant,
/// and no option of `varve crash` leaves a guard out.
pub fn explore(case: &Case) -> String {
    if let Some(mutant) = &case.mutant {
        return format!("cargo xtask mutants {mutant}");
    }
    let scheduler = case.scheduler.map(|s| format!(" --scheduler {s}"));
    format!(
        "varve crash --schemes {} --device {}{} --seed {} --workload '{}'",
        case.scheme,
        case.device,
        scheduler.unwrap_or_default(),
        case.seed,
        case.workload.replace('\'', "'\\''")
    )
}

impl fmt::Display for Repro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repro {
            varve,
            states,
            run,
            case,
            state,
        } = self;
        write!(f, "{PREFIX}{FORMAT} varve={} states={states}", word(varve))?;
        write!(f, " run={run:016x} scheme={}", word(&case.scheme))?;
        write!(f, " device={} seed={}", word(&case.device), case.seed)?;
        write!(f, " state={}", word(state))?;
        if let Some(scheduler) = case.scheduler {
            write!(f, " scheduler={scheduler}")?;
        }
        if let Some(mutant) = &case.mutant {
            write!(f, " mutant={}", word(mutant))?;
        }
        write!(f, " workload={}", escape(&case.workload, false))
    }
}

fn word(text: &str) -> String {
    escape(text, true)
}

fn escape(text: &str, spaces: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, byte) in text.bytes().enumerate() {
        let plain = match byte {
            b'%' | b'\'' => false,
            // A space at the end of the line would get lost in mails.
            b' ' => !spaces && n + 1 < text.len(),
            _ => byte.is_ascii_graphic(),
        };
        match plain {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn unescape(field: &str, text: &str) -> Result<String, ReproError> {
    let bad = |why: &str| ReproError::Field {
        field: field.into(),
        why: why.into(),
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(bad("`%` without two hexadecimal digits")),
        }
    }
    String::from_utf8(bytes).map_err(|_| bad("not UTF-8"))
}

/// The fields of a line, each at most once.
#[derive(Default)]
struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    const NAMES: [&'static str; 10] = [
        "varve",
        "states",
        "run",
        "scheme",
        "device",
        "seed",
        "state",
        "scheduler",
        "mutant",
        "workload",
    ];

    fn read(mut rest: &'a str) -> Result<Fields<'a>, ReproError> {
        let mut fields = Fields::default();
        while !rest.is_empty() {
            let bad = |field: &str, why: &str| ReproError::Field {
                field: field.into(),
                why: why.into(),
            };
            let (name, tail) = rest
                .split_once('=')
                .ok_or_else(|| bad(rest, "no `=`: copy the whole line of the finding"))?;
            if !Self::NAMES.contains(&name) {
                return Err(bad(name, "unknown field"));
            }
            if fields.find(name).is_some() {
                return Err(bad(name, "comes twice"));
            }
            let (value, next) = match name {
                "workload" => (tail, ""),
                _ => tail.split_once(' ').unwrap_or((tail, "")),
            };
            fields.0.push((name, value));
            rest = next;
        }
        Ok(fields)
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(n, _)| *n == name)?;
        Some(value)
    }

    fn text(&self, name: &'static str) -> Result<String, ReproError> {
        let value = self.find(name).ok_or(ReproError::Missing(name))?;
        unescape(name, value)
    }

    fn number<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ReproError> {
        let text = self.text(name)?;
        parse(&text).ok_or_else(|| ReproError::Field {
            field: name.into(),
            why: format!("`{text}` is no number"),
        })
    }
}

impl FromStr for Repro {
    type Err = ReproError;
    fn from_str(line: &str) -> Result<Repro, ReproError> {
        let line = line.trim();
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        let format = head
            .strip_prefix(PREFIX)
            .ok_or_else(|| ReproError::NoLine(line.chars().take(60).collect()))?;
        if format != FORMAT.to_string() {
            let found = format.into();
            return Err(ReproError::Format { found });
        }
        let fields = Fields::read(rest)?;
        let mutant = match fields.find("mutant") {
            Some(_) => Some(fields.text("mutant")?),
            None => None,
        };
        let scheduler = match fields.find("scheduler") {
            Some(_) => Some(fields.text("scheduler")?.parse().map_err(
                |e: base::UnknownWord| ReproError::Field {
                    field: "scheduler".into(),
                    why: e.to_string(),
                },
            )?),
            None => None,
        };
        Ok(Repro {
            varve: fields.text("varve")?,
            states: fields.number("states", |t| t.parse().ok())?,
            run: fields.number("run", |t| u64::from_str_radix(t, 16).ok())?,
            case: Case {
                scheme: fields.text("scheme")?,
                device: fields.text("device")?,
                workload: fields.text("workload")?,
                seed: fields.number("seed", |t| t.parse().ok())?,
                scheduler,
                mutant,
            },
            state: fields.text("state")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Repro {
        let case = Case {
            scheme: "none+data=writeback".into(),
            device: "spec:emmc,sector=4096".into(),
            workload: "create /a\nwrite /a 0+8 # it's 100%".into(),
            seed: 7,
            scheduler: None,
            mutant: None,
        };
        Repro::new(&case, 0xabc, "17.oldest/4.s2a")
    }

    proptest! {
        #[test]
        fn every_line_reads_back(
            words in proptest::collection::vec(".{0,24}", 6),
            numbers in any::<(u32, u64, u64)>(),
            mutant in any::<bool>(),
        ) {
            let repro = Repro {
                varve: words[0].clone(),
                states: numbers.0,
                run: numbers.1,
                case: Case {
                    scheme: words[1].clone(),
                    device: words[2].clone(),
                    workload: words[3].clone(),
                    seed: numbers.2,
                    scheduler: mutant.then_some(rig::Scheduler::Cfq310),
                    mutant: mutant.then(|| words[4].clone()),
                },
                state: words[5].clone(),
            };
            let line = repro.to_string();
            prop_assert!(line.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) && !line.contains('\''));
            let back: Repro = format!(" {line}\n").parse().unwrap();
            prop_assert_eq!(back, repro);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,80}", at in 0..200usize) {
            let _ = text.parse::<Repro>();
            let line = example().to_string();
            let cut = at.min(line.len());
            let _ = format!("{}{text}{}", &line[..cut], &line[cut..]).parse::<Repro>();
        }
    }

    fn refusal(change: impl Fn(String) -> String) -> String {
        let line = change(example().to_string());
        line.parse::<Repro>().unwrap_err().to_string()
    }

    /// L1.
    #[test]
    fn a_bad_line_is_refused_by_name() {
        for (from, to, says) in [
            ("varve-crash-1", "varve-crash-2", "format 2"),
            ("varve-crash-1", "crash", "no reproduction line"),
            (" seed=7", "", "no `seed=`"),
            (" seed=7", " seed=x", "`x` is no number"),
            (" seed=7", " seed=7 seed=7", "comes twice"),
            (" seed=7", " colour=7", "`colour`"),
            ("%0A", "%0", "hexadecimal"),
            ("%0A", "%FF", "UTF-8"),
            (" run=0", " run 0", "unknown field"),
        ] {
            let why = refusal(|line| line.replacen(from, to, 1));
            assert!(why.contains(says), "{from} -> {to}: {why}");
        }
    }

    #[test]
    fn a_line_of_another_build_is_refused_with_what_to_do() {
        let repro = example();
        assert_eq!(repro.check_build(), Ok(()));
        let other = Repro {
            varve: "0.0.9".into(),
            states: STATES + 1,
            ..repro.clone()
        };
        let why = other.check_build().unwrap_err().to_string();
        assert!(
            why.contains("with Varve 0.0.9") && why.contains("--seed 7"),
            "{why}"
        );
        // Another version whose states have the same numbers will do.
        let same = Repro {
            varve: "0.0.9".into(),
            ..repro.clone()
        };
        assert_eq!(same.check_build(), Ok(()));
        assert_eq!(repro.check_run(0xabc), Ok(()));
        let why = repro.check_run(0xabd).unwrap_err().to_string();
        assert!(why.contains("explore the case anew"), "{why}");
    }

    #[test]
    fn a_case_without_a_guard_is_explored_without_it() {
        let mut repro = example();
        repro.case.mutant = Some("skip-flush".into());
        let why = repro.check_run(0xabd).unwrap_err().to_string();
        assert!(
            why.ends_with("anew: cargo xtask mutants skip-flush"),
            "{why}"
        );
    }

    #[cfg(not(feature = "mutants"))]
    #[test]
    fn a_mutant_needs_its_build() {
        let mut repro = example();
        repro.case.mutant = Some("skip-flush".into());
        let why = repro.check_build().unwrap_err().to_string();
        assert!(
            why.contains("`skip-flush`") && why.contains("cargo xtask mutants"),
            "{why}"
        );
    }
}
