//! Which fields of each kind of profile are fitted, and why the others cannot be seen from outside.

use serde::Serialize;
use toml::{Table, Value};

/// A field that a fit may change.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Field {
    /// Its place: `timing` stands for the timing set in use, `chips` for the speed of the chips
    /// that counts in it.
    pub name: &'static str,
    /// A small amount of it, in its unit: what matters at all, and the first step of a search from
    /// zero.
    pub small: f64,
}

/// A field that keeps the template's value.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Assumed {
    /// The field's path.
    pub field: String,
    /// The template's value.
    pub value: String,
    /// Why it cannot be seen.
    pub why: String,
}

/// Something that no measurement from outside shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Unseen {
    /// Fields, as the profile names them.
    pub fields: &'static str,
    /// Why.
    pub why: &'static str,
}

/// What a fit knows about a kind of profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    /// Fitted always.
    pub main: &'static [Field],
    /// Fitted only if the main ones alone cannot explain what was seen: with the template's values
    /// one of them would have to be negative.
    pub reserve: &'static [Field],
    /// The field with the size of the cache, KiB.
    pub cache: Option<&'static str>,
    /// True if the model carries out one command at a time: it says nothing of several.
    pub serial: bool,
    /// Capacity of the model that is measured for comparison, bytes.
    pub model_bytes: u64,
    /// What nobody can see.
    pub unseen: &'static [Unseen],
}

const fn us(name: &'static str) -> Field {
    Field { name, small: 2.0 }
}
const fn us_per_kib(name: &'static str) -> Field {
    Field { name, small: 0.1 }
}

const fn ns_per_byte(name: &'static str) -> Field {
    Field { name, small: 0.1 }
}

const CHIPS: Unseen = Unseen {
    fields: "nand: channels, dies, pages, erase_us, endurance",
    why: "the controller hides the chips; wear and life follow from the endurance, so put that of your card's data sheet there",
};
const LAYER: Unseen = Unseen {
    fields: "ftl: over_provisioning, lanes, policy and the rest; slc",
    why: "garbage collection shows only over many times the capacity; it decides the write amplification",
};
const CAPACITY: Unseen = Unseen {
    fields: "capacity_mib",
    why: "the simulated size is the template's: time and wear depend on the share in use, not on the size",
};
const HOST: Unseen = Unseen {
    fields: "host.cpu_percent",
    why: "the requests here cost hardly any work on a core; 100 is a PC's, 400 a small board's",
};
const CUTS: Unseen = Unseen {
    fields: "what a power cut leaves (tear_bytes, pack_order, wr_rel_set, awupf)",
    why: "only a cut shows it, and a test with one proves damage, never its absence",
};

const QUEUE: Unseen = Unseen {
    fields: "several commands at a time",
    why: "devices of this kind carry out one after the other; --like nvme-980pro or ufs-generic knows queues",
};

const PLAIN: Sort = Sort {
    main: &[
        us("timing.request_us"),
        us_per_kib("timing.per_kib_us"),
        us("timing.flush_us"),
        us_per_kib("timing.flush_per_kib_us"),
    ],
    reserve: &[],
    cache: None,
    serial: true,
    model_bytes: 64 << 20,
    unseen: &[
        CAPACITY,
        HOST,
        QUEUE,
        Unseen {
            fields: "chips",
            why: "this kind has none, so it tells times and no wear; --like emmc-odroid-xu4 or nvme-980pro has chips",
        },
    ],
};

const EMMC: Sort = Sort {
    main: &[
        us_per_kib("timing.bus_us_per_kib"),
        us("timing.write_us"),
        us("timing.random_us"),
        us("timing.read_us"),
        // What reads take for each KiB beyond the bus of the card, which writes show; and for each
        // round of all dies.
        ns_per_byte("chips.bus_ns_per_byte"),
        us("chips.read_us"),
        us_per_kib("timing.program_us_per_kib"),
        us("timing.reliable_us"),
        us_per_kib("timing.reliable_us_per_kib"),
        us("timing.flush_us"),
        us("timing.flush_idle_us"),
        us("timing.packed_us"),
        us("timing.erase_us"),
    ],
    reserve: &[us("timing.request_us"), us("chips.program_us")],
    cache: Some("card.cache_kib"),
    serial: true,
    model_bytes: 64 << 20,
    unseen: &[
        CHIPS,
        LAYER,
        CUTS,
        CAPACITY,
        HOST,
        QUEUE,
        Unseen {
            fields: "timing: request_us, command_us; nand.timing: program_us",
            why: "each is seen only in sums (request_us + 2 command_us + write_us; flush_us + program_us), which are right whatever their parts are",
        },
        Unseen {
            fields: "timing: barrier_us, pipelined",
            why: "Linux sends no barrier to a card by this way",
        },
    ],
};

const NVME: Sort = Sort {
    main: &[
        us("timing.request_us"),
        us_per_kib("timing.link_us_per_kib"),
        us("timing.read_us"),
        ns_per_byte("chips.bus_ns_per_byte"),
        us("timing.write_us"),
        us("timing.accept_us"),
        us_per_kib("timing.program_us_per_kib"),
        us("timing.fua_us"),
        us("timing.flush_us"),
        us("timing.flush_idle_us"),
        us("timing.deallocate_us"),
    ],
    reserve: &[us("chips.read_us"), us("chips.program_us")],
    cache: Some("controller.buffer_kib"),
    serial: false,
    model_bytes: 1 << 30,
    unseen: &[
        CHIPS,
        LAYER,
        CUTS,
        CAPACITY,
        HOST,
        Unseen {
            fields: "controller.cores; nand.timing: read_us, program_us",
            why: "the time of a command is seen, and how many are done at once; cores and their times only in ratio",
        },
    ],
};

const RAW: Sort = Sort {
    main: &[
        us("timing.request_us"),
        us_per_kib("timing.bus_us_per_kib"),
        us_per_kib("timing.program_us_per_kib"),
        us("chips.read_us"),
        us("chips.program_us"),
    ],
    reserve: &[],
    cache: None,
    serial: true,
    model_bytes: 64 << 20,
    unseen: &[
        CHIPS,
        LAYER,
        CUTS,
        CAPACITY,
        HOST,
        QUEUE,
        Unseen {
            fields: "nand.timing: bus_ns_per_byte; timing.remap_us_per_pair",
            why: "the bus of the chips is seen only in its sum with read_us and program_us; Linux sends no REMAP",
        },
    ],
};

impl Sort {
    /// Of a profile's kind.
    pub fn of(kind: &str) -> Option<Sort> {
        match kind {
            "plain" => Some(PLAIN),
            "emmc" => Some(EMMC),
            "nvme" => Some(NVME),
            "raw" => Some(RAW),
            _ => None,
        }
    }
}

/// The path of a field in a profile's table, where the timing set `set` is in use.
pub(crate) fn path(table: &Table, set: &str, name: &str) -> Vec<String> {
    let (group, rest) = name.split_once('.').unwrap_or(("", name));
    let own_chips = || {
        let set = table.get("timing").and_then(|t| t.get(set));
        set.is_some_and(|set| set.get("nand").is_some())
    };
    let names: Vec<&str> = match group {
        "timing" => vec!["timing", set, rest],
        "chips" if own_chips() => vec!["timing", set, "nand", rest],
        "chips" => vec!["nand", "timing", rest],
        group => vec![group, rest],
    };
    names.into_iter().map(String::from).collect()
}

/// The value at a path; `None` if there is none.
pub(crate) fn get<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (last, groups) = path.split_last()?;
    let mut here = table;
    for group in groups {
        here = here.get(group)?.as_table()?;
    }
    here.get(last)
}

/// The number at a path, whole or not.
pub(crate) fn number(table: &Table, path: &[String]) -> Option<f64> {
    match get(table, path)? {
        Value::Float(x) => Some(*x),
        Value::Integer(n) => Some(*n as f64),
        _ => None,
    }
}

/// Puts a value at a path that exists. Nothing happens where it does not.
pub(crate) fn put(table: &mut Table, path: &[String], value: Value) {
    let Some((last, groups)) = path.split_last() else {
        return;
    };
    let mut here = table;
    for group in groups {
        let Some(Value::Table(inner)) = here.get_mut(group) else {
            return;
        };
        here = inner;
    }
    if let Some(old) = here.get_mut(last) {
        *old = value;
    }
}
