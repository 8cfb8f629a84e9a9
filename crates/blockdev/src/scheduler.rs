//! The names of the I/O schedulers. A device profile says which one its host uses, and `block` has
//! the schedulers themselves.

use serde::{Deserialize, Serialize};

base::words! {
    /// An I/O scheduler.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Scheduler: "scheduler" {
        /// Each request goes to the device at once (Linux: the default of NVMe).
        #[default]
        None => "none",
        /// CFQ as in Linux 3.10, where it was the default of every device.
        #[serde(rename = "cfq-3.10")]
        Cfq310 => "cfq-3.10",
        /// Deadlines for reads and writes (Linux: the default of devices with one queue since 5.0).
        MqDeadline => "mq-deadline",
        /// Budget fair queueing.
        Bfq => "bfq",
    }
}
