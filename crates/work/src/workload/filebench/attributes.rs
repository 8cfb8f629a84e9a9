//! The attributes of one definition: which ones a definition may have, and what was given. An
//! attribute that is unknown is refused, because ignoring it would measure another model.

use super::amount::{Amount, Random, Value};
use super::error::{Fault, fault};
use super::model::{Ignored, Model};
use std::collections::BTreeMap;

/// The attributes that a kind of definition may have.
pub struct Known {
    /// The kind of definition, for messages.
    pub of: &'static str,
    /// Attributes that are used.
    pub used: &'static [&'static str],
    /// Attributes of the language that mean nothing on a simulated volume.
    pub ignored: &'static [&'static str],
}

/// Attributes of a set of files.
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

/// Attributes of a single file.
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

/// Attributes of a process.
pub const PROCESS: Known = Known {
    of: "process",
    used: &["name", "instances"],
    ignored: &["nice"],
};

/// Attributes of a thread.
pub const THREAD: Known = Known {
    of: "thread",
    used: &["name", "instances"],
    ignored: &["memsize", "useism", "ioprio"],
};

/// Attributes of a flowop.
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

/// Attributes of a flowop that is composed by `define flowop`.
pub const GROUP: Known = Known {
    of: "flowop of this file",
    used: &["name", "iters"],
    ignored: &[],
};

/// Attributes of a random variable.
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

/// The attributes that a definition has.
pub struct Attributes {
    known: &'static Known,
    /// Line of the definition.
    pub line: u32,
    given: BTreeMap<String, (Value, u32)>,
}

impl Attributes {
    /// Takes the attributes that are used, and counts those that mean nothing in `model`.
    ///
    /// # Errors
    /// An attribute is unknown, or given twice.
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

    /// True if the attribute was given.
    pub fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The attribute as a word.
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

    /// The attribute `name`, which has to be there and to be fit for a path.
    ///
    /// # Errors
    /// It is missing, or not fit for a path.
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

    /// The attribute as a whole number of at most `most`, or `otherwise` if it was not given.
    ///
    /// # Errors
    /// It is no whole number, or larger.
    pub fn int(&self, name: &str, otherwise: u64, most: u64) -> Result<u64, Fault> {
        let Some((value, _)) = self.given.get(name) else {
            return Ok(otherwise);
        };
        let found = value.int().filter(|n| *n <= most);
        found.ok_or_else(|| self.wrong(name, &format!("a whole number, at most {most}")))
    }

    /// Like [`int`](Attributes::int), and at least 1.
    ///
    /// # Errors
    /// As [`int`](Attributes::int).
    pub fn positive(&self, name: &str, otherwise: u64, most: u64) -> Result<u64, Fault> {
        match self.int(name, otherwise, most)? {
            0 => Err(self.wrong(name, &format!("a whole number from 1 to {most}"))),
            n => Ok(n),
        }
    }

    /// The attribute as a number or a random variable of at most `most`.
    ///
    /// # Errors
    /// It is neither, or may be larger.
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

    /// True if the attribute was given and is not off.
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

/// Counts something that is left out.
pub fn ignore(model: &mut Model, what: String, line: u32) {
    let new = Ignored { count: 0, line };
    model.ignored.entry(what).or_insert(new).count += 1;
}
