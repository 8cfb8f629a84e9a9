//! The two numbers that order what happens.
//!
//! *Versions* are on flash: each slot that is programmed, each TRIM and batch, and each set of
//! owner records takes the next one, and of two versions of a unit recovery takes the greater
//! (ftl-I4). *Operations* are in memory only: each unit that is put into a stream and each TRIM or
//! batch has a number, and an erase waits until all operations up to the one that freed the block
//! are durable (ftl-I2).

/// The last numbers that were given out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    version: u64,
    accepted: u64,
}

impl Numbers {
    /// The last version.
    pub fn version(&self) -> u64 {
        self.version
    }
    /// Gives out the next version.
    pub fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
    /// Notes that recovery has found a version.
    pub fn found(&mut self, version: u64) {
        self.version = self.version.max(version);
    }
    /// Lets versions begin behind this one, whatever was found.
    pub fn restart(&mut self, version: u64) {
        self.version = version;
    }
    /// The last operation.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }
    /// Accepts an operation; answers its number.
    pub fn accept(&mut self) -> u64 {
        self.accepted += 1;
        self.accepted
    }
}
