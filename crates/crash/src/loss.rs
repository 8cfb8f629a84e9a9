//! What a cut took, promised or not. Schemes that all keep their promises are compared by it.

use base::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a cut took. Only a loss that a rule excludes is a violation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Operations on names and attributes that a completed sync covers and that are gone.
    pub acked_ops: usize,
    /// Bytes of file content that a completed sync covers and that are gone.
    pub acked_bytes: u64,
    /// Operations on names and attributes that had ended and are gone, covered or not.
    pub ops: usize,
    /// Bytes that had been written and are gone, covered or not.
    pub bytes: u64,
    /// From the end of the newest operation that is there to the cut; 0 if nothing ended is gone.
    #[serde(with = "ns")]
    #[schemars(with = "u64")]
    pub age: Nanos,
    /// Some file shows bytes that it had held earlier and that were overwritten or cut off before
    /// the cut.
    pub old_data: bool,
    /// Some file shows bytes of another file, or what lay on the device before.
    pub foreign_data: bool,
}

impl Loss {
    /// True if nothing is gone and nothing shows that must not.
    pub fn is_none(&self) -> bool {
        *self == Loss::default()
    }

    /// Adds what another task or another cut lost; of two ages the greater one stays.
    pub fn add(&mut self, other: &Loss) {
        self.acked_ops += other.acked_ops;
        self.acked_bytes += other.acked_bytes;
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.age = self.age.max(other.age);
        self.old_data |= other.old_data;
        self.foreign_data |= other.foreign_data;
    }
}

/// Writes a duration as a number of nanoseconds.
mod ns {
    use base::Nanos;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub fn serialize<S: Serializer>(age: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(age.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        u64::deserialize(from).map(Nanos)
    }
}
