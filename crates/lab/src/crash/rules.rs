//! What is promised, under which terms.

use super::{CrashConfig, Target};
use rig::Data;

/// What a promise depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Metadata is journaled: any scheme but `none`.
    pub journaled: bool,
    /// What is promised of file data.
    pub data: Data,
    /// A write through the device's cache may leave garbage at its place when the power goes.
    pub garbles: bool,
}

impl Terms {
    /// The terms of a run.
    pub fn of(config: &CrashConfig) -> Terms {
        let garbles = match &config.target {
            Target::Spec(caps) => caps.tear_granule.is_none(),
            Target::Profile(_) => true,
        };
        Terms {
            journaled: config.stack.scheme.0.is_some(),
            data: config.stack.data,
            garbles,
        }
    }

    /// A page that was being overwritten in place may be lost, synced or not.
    pub fn may_lose_rewritten_page(&self) -> bool {
        self.garbles && self.data != Data::Journal
    }

    /// A block that was mapped and not yet written shows what lay there before.
    pub fn may_show_stale_data(&self) -> bool {
        self.journaled && self.data == Data::Writeback
    }
}
