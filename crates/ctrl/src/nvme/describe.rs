//! Identify data in words (NVMe 1.4, 5.15.2), or the descriptors of a UFS device (JESD220E, 14.1).

use super::config::Protocol;
use super::controller::Controller;
use crate::emmc::FieldText;

impl Controller {
    /// What the device reports about itself: name and offset of each field, its value, and what
    /// that means.
    pub fn describe(&self) -> Vec<FieldText> {
        match self.config().protocol {
            Protocol::Nvme => self.identify(),
            Protocol::Ufs => self.descriptors(),
        }
    }
    fn identify(&self) -> Vec<FieldText> {
        let c = self.config();
        let lba = u64::from(c.lba_bytes);
        let blocks = |n: u32| format!("{} logical blocks, {} bytes", n + 1, u64::from(n + 1) * lba);
        let mdts = u64::from((c.max_transfer_kib / 4).ilog2());
        let oncs = 1 << 3 | u64::from(c.discard) << 2;
        let discard = if c.discard {
            ", Dataset Management"
        } else {
            ""
        };
        let boundary = u64::from(c.awupf);
        let tear = match c.tear_bytes {
            0 => "longer writes: no promise".into(),
            bytes => format!("longer writes: pieces of {bytes} bytes"),
        };
        let size = format!("{} MiB", (self.blocks() * lba) >> 20);
        let field = |byte, name, value, meaning| FieldText {
            byte,
            name,
            value,
            meaning,
        };
        vec![
            field(
                77,
                "MDTS",
                mdts,
                format!("{} KiB in a command", c.max_transfer_kib),
            ),
            field(80, "VER", 0x1_0400, "1.4".into()),
            field(512, "SQES", 0x66, "64 bytes".into()),
            field(513, "CQES", 0x44, "16 bytes".into()),
            field(
                514,
                "MAXCMD",
                c.queue_depth.into(),
                format!("{} queues of this depth", c.queues),
            ),
            field(516, "NN", 1, "one namespace".into()),
            field(520, "ONCS", oncs, format!("Write Zeroes{discard}")),
            field(525, "VWC", 1, cache(self.cache_on())),
            field(526, "AWUN", c.awun.into(), blocks(c.awun)),
            field(
                528,
                "AWUPF",
                c.awupf.into(),
                format!("{}; {tear}", blocks(c.awupf)),
            ),
            field(4096, "NSZE", self.blocks(), size),
            field(4096 + 24, "NSFEAT", 0x12, "NAWUPF and NABSPF count".into()),
            field(4096 + 26, "FLBAS", 0, format!("{lba} bytes")),
            field(
                4096 + 33,
                "DLFEAT",
                0x9,
                "deallocated blocks read as zeros; Write Zeroes may deallocate".into(),
            ),
            field(4096 + 36, "NAWUPF", c.awupf.into(), blocks(c.awupf)),
            field(
                4096 + 44,
                "NABSPF",
                boundary,
                "aligned: a write across this boundary is not one".into(),
            ),
            field(
                4096 + 128,
                "LBAF0",
                u64::from(c.lba_bytes.ilog2()) << 16,
                format!("{lba} bytes"),
            ),
        ]
    }
    fn descriptors(&self) -> Vec<FieldText> {
        let c = self.config();
        let lba = u64::from(c.lba_bytes);
        let field = |byte, name, value, meaning| FieldText {
            byte,
            name,
            value,
            meaning,
        };
        vec![
            field(0x10, "wSpecVersion", 0x0310, "3.1".into()),
            field(
                0x06,
                "bLUQueueDepth",
                c.queue_depth.into(),
                "tasks at a time".into(),
            ),
            field(
                0x0A,
                "bLogicalBlockSize",
                c.lba_bytes.ilog2().into(),
                format!("{lba} bytes"),
            ),
            field(
                0x0B,
                "qLogicalBlockCount",
                self.blocks(),
                format!("{} MiB", (self.blocks() * lba) >> 20),
            ),
            field(
                0x17,
                "bProvisioningType",
                if c.discard { 3 } else { 0 },
                unmap(c.discard),
            ),
            field(
                0x54,
                "bWriteBoosterBufferType",
                1,
                "shared by all logical units".into(),
            ),
        ]
    }
}

fn cache(on: bool) -> String {
    let state = if on { "on" } else { "off" };
    format!("a volatile write cache, {state}")
}

fn unmap(on: bool) -> String {
    match on {
        true => "thin: unmapped blocks read as zeros",
        false => "fully provisioned",
    }
    .into()
}
