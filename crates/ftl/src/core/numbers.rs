//! The two numbers that order what happens.
//!
//! *Versions* are on flash: each program, TRIM, batch and record of owners takes the next one, and
//! recovery takes the greatest (ftl-I4). *Operations* are in memory only: each unit or command that
//! is accepted has a number, and an erase waits until all operations up to one are durable
//! (ftl-I2).

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
