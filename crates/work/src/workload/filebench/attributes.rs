//! The attributes of one definition.

use super::amount::{Amount, Random, Value};
use super::error::{Fault, fault};
use super::model::{Ignored, Model};
use std::collections::BTreeMap;

/// What may stand in a definition.
pub struct Known {
    /// What is defined.
    pub of: &'static str,
    /// Attributes that mean something.
    pub used: &'static [&'static str],
    /// Attributes of the language that mean nothing here.
    pub ignored: &'static [&'static str],
}

/// Of a set of files.
pub const FILESET: Known = Known {
    of: "fileset",
    used: &[
        "name",
        "entries",
        "leafdirs",
        "dirwidth",
        "dirgamma",
        "size",
        "filesize",
        "filesizegamma",
        "prealloc",
        "readonly",
    ],
    ignored: &[
        "path",
        "reuse",
        "trusttree",
        "trusts",
        "paralloc",
        "cached",
        "writeonly",
        "namelength",
    ],
};

/// Of one file.
pub const FILE: Known = Known {
    of: "file",
    used: &[
        "name",
        "size",
        "filesize",
        "filesizegamma",
        "prealloc",
        "readonly",
    ],
    ignored: FILESET.ignored,
};

/// Of a process.
pub const PROCESS: Known = Known {
    of: "process",
    used: &["name", "instances"],
    ignored: &["nice"],
};

/// Of a thread.
pub const THREAD: Known = Known {
    of: "thread",
    used: &["name", "instances"],
    ignored: &["memsize", "useism", "ioprio"],
};

/// Of a flowop.
pub const FLOWOP: Known = Known {
    of: "flowop",
    used: &[
        "name",
        "filesetname",
        "filename",
        "fd",
        "srcfd",
        "iosize",
        "iters",
        "random",
        "dsync",
        "opennext",
        "rotatefd",
        "workingset",
        "wss",
        "value",
        "target",
        "highwater",
        "blocking",
    ],
    ignored: &["directio", "noreadahead"],
};

/// Of a flowop that `define flowop` made.
pub const GROUP: Known = Known {
    of: "flowop of this file",
    used: &["name", "iters"],
    ignored: &[],
};

/// Of a random variable.
pub const RANDVAR: Known = Known {
    of: "random variable",
    used: &[
        "name",
        "type",
        "mean",
        "gamma",
        "min",
        "max",
        "round",
        "parameters",
    ],
    ignored: &["seed", "randsrc"],
};

/// Attributes that were given.
pub struct Attributes {
    known: &'static Known,
    /// Line of the definition.
    pub line: u32,
    given: BTreeMap<String, (Value, u32)>,
}

impl Attributes {
    /// Takes what means something; counts in `model` what does not.
    ///
    /// # Errors
    /// One is unknown, or given twice.
    pub fn new(
        known: &'static Known,
        line: u32,
        all: Vec<(String, Value, u32)>,
        model: &mut Model,
    ) -> Result<Attributes, Fault> {
        let mut given = BTreeMap::new();
        for (name, value, line) in all {
            if known.ignored.contains(&name.as_str()) {
                ignore(model, format!("attribute {name} of a {}", known.of), line);
                continue;
            }
            if !known.used.contains(&name.as_str()) {
                return Err(fault(line, known.without(&name)));
            }
            if given.insert(name.clone(), (value, line)).is_some() {
                return Err(fault(line, format!("`{name}` is given twice")));
            }
        }
        Ok(Attributes { known, line, given })
    }

    fn wrong(&self, name: &str, wanted: &str) -> Fault {
        let (value, line) = &self.given[name];
        let what = format!("`{name}={}` of a {}: {wanted}", value.text(), self.known.of);
        fault(*line, what)
    }

    /// True if it was given.
    pub fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// A word.
    ///
    /// # Errors
    /// It is a random variable.
    pub fn text(&self, name: &str) -> Result<Option<String>, Fault> {
        match self.given.get(name) {
            None => Ok(None),
            Some((Value::Random(_), _)) => Err(self.wrong(name, "this is a word")),
            Some((value, _)) => Ok(Some(value.text())),
        }
    }

    /// The name that it has to have, fit for a path.
    ///
    /// # Errors
    /// There is none, or not such a one.
    pub fn name(&self) -> Result<String, Fault> {
        let Some(name) = self.text("name")? else {
            return Err(fault(
                self.line,
                format!("a {} without `name`", self.known.of),
            ));
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let fits = !name.is_empty() && name.len() <= 64 && name != "." && name != "..";
        match fits && name.chars().all(plain) {
            true => Ok(name),
            false => Err(self.wrong("name", "at most 64 letters, digits, `_`, `-` or `.`")),
        }
    }

    /// A whole number, or `otherwise`.
    ///
    /// # Errors
    /// It is none, or out of range.
    pub fn int(&self, name: &str, otherwise: u64, most: u64) -> Result<u64, Fault> {
        let Some((value, _)) = self.given.get(name) else {
            return Ok(otherwise);
        };
        let found = value.int().filter(|n| *n <= most);
        found.ok_or_else(|| self.wrong(name, &format!("a whole number, at most {most}")))
    }

    /// The same, at least 1.
    ///
    /// # Errors
    /// As [`int`](Attributes::int).
    pub fn positive(&self, name: &str, otherwise: u64, most: u64) -> Result<u64, Fault> {
        match self.int(name, otherwise, most)? {
            0 => Err(self.wrong(name, &format!("a whole number from 1 to {most}"))),
            n => Ok(n),
        }
    }

    /// A number or a random variable.
    ///
    /// # Errors
    /// It is neither, or out of range.
    pub fn amount(&self, name: &str, most: u64) -> Result<Option<Amount>, Fault> {
        match self.given.get(name) {
            None => Ok(None),
            Some((Value::Random(random), _)) => {
                let max = random.max.min(most);
                let min = random.min.min(max);
                Ok(Some(Amount::Random(Random {
                    min,
                    max,
                    ..*random
                })))
            }
            Some(_) => Ok(Some(Amount::Fixed(self.int(name, 0, most)?))),
        }
    }

    /// True if it stands there and is not switched off.
    ///
    /// # Errors
    /// It is neither on nor off.
    pub fn flag(&self, name: &str) -> Result<bool, Fault> {
        match self.given.get(name) {
            None => Ok(false),
            Some((Value::Bool(on), _)) => Ok(*on),
            Some((Value::Int(n @ 0..=1), _)) => Ok(*n == 1),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }
}

impl Known {
    fn without(&self, name: &str) -> String {
        let ignored = match self.ignored {
            [] => String::new(),
            some => format!("; ignored are: {}", some.join(", ")),
        };
        let used = self.used.join(", ");
        format!(
            "a {} has no attribute `{name}` here; there is: {used}{ignored}",
            self.of
        )
    }
}

/// Counts what is left out.
pub fn ignore(model: &mut Model, what: String, line: u32) {
    let new = Ignored { count: 0, line };
    model.ignored.entry(what).or_insert(new).count += 1;
}
