//! What the kernel tells of the device below a path: its name, limits, and of an eMMC its registers
//! and how worn it says to be.

use calibrate::{ExtCsd, Given};
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use toml::Value;

/// A block device of the host.
#[derive(Debug)]
pub struct Disk {
    /// Its name in /sys/block.
    pub name: String,
    /// Where its attributes are.
    sys: PathBuf,
    /// Where the kernel shows what is for root only.
    debug: PathBuf,
}

impl Disk {
    /// The device that a file or folder lies on, or that a block device is (of a partition: the
    /// whole). `None` where there is no single one, as below btrfs or a network.
    pub fn below(meta: &Metadata) -> Option<Disk> {
        let id = match meta.file_type().is_block_device() {
            true => meta.rdev(),
            false => meta.dev(),
        };
        Disk::by_number(Path::new("/sys"), id)
    }
    fn by_number(sys: &Path, id: u64) -> Option<Disk> {
        let (major, minor) = (rustix::fs::major(id), rustix::fs::minor(id));
        let link = sys.join(format!("dev/block/{major}:{minor}"));
        let at = fs::canonicalize(link).ok()?;
        let whole = match at.join("partition").exists() {
            true => at.parent()?.to_path_buf(),
            false => at,
        };
        Some(Disk {
            name: whole.file_name()?.to_string_lossy().into_owned(),
            sys: whole,
            debug: sys.join("kernel/debug"),
        })
    }
    fn read(&self, attribute: &str) -> Option<String> {
        let text = fs::read_to_string(self.sys.join(attribute)).ok()?;
        Some(text.trim().to_string())
    }
    /// The built-in profile that such a device is like.
    pub fn like(&self) -> &'static str {
        let ufs = || self.sys.to_string_lossy().contains("ufs");
        match &self.name {
            name if name.starts_with("mmcblk") => "emmc-odroid-xu4",
            name if name.starts_with("nvme") => "nvme-980pro",
            name if name.starts_with("sd") && ufs() => "ufs-generic",
            _ => "loop-like",
        }
    }
    /// What it calls itself, for people.
    pub fn title(&self) -> String {
        let model = self
            .read("device/name")
            .or_else(|| self.read("device/model"));
        match model {
            Some(model) if !model.is_empty() => format!("/dev/{} ({model})", self.name),
            _ => format!("/dev/{}", self.name),
        }
    }
    /// Fields of a profile of this kind that the kernel knows.
    pub fn given(&self, kind: &str) -> Vec<Given> {
        let whole = |attribute: &str| self.read(attribute)?.parse::<i64>().ok();
        let given = |field: &str, value, attribute: &str| Given {
            field: field.into(),
            value,
            from: format!("/sys/block/{}/{attribute}", self.name),
        };
        let mut all = Vec::new();
        let most = whole("queue/max_sectors_kb").map(|kib| (kib / 4 * 4).clamp(4, 32_764));
        let transfer = match kind {
            "plain" => Some("max_transfer_kib"),
            "emmc" => Some("card.max_transfer_kib"),
            _ => None,
        };
        if let (Some(field), Some(kib)) = (transfer, most) {
            all.push(given(field, Value::Integer(kib), "queue/max_sectors_kb"));
        }
        if kind == "plain" {
            let fua = whole("queue/fua").map(|n| n != 0);
            all.extend(fua.map(|fua| given("fua", Value::Boolean(fua), "queue/fua")));
            let bytes = whole("queue/discard_max_bytes").map(|n| n > 0);
            all.extend(
                bytes.map(|n| given("discard", Value::Boolean(n), "queue/discard_max_bytes")),
            );
        }
        all
    }
    /// True if the kernel hands FUA on to it.
    pub fn has_fua(&self) -> bool {
        self.read("queue/fua").is_some_and(|fua| fua != "0")
    }
    /// The file in which the kernel shows the EXT_CSD of this eMMC, if it is one.
    pub fn ext_csd_file(&self) -> Option<PathBuf> {
        let card = fs::canonicalize(self.sys.join("device")).ok()?;
        let card = card.file_name()?.to_string_lossy().into_owned();
        // A card is called `mmc0:0001`, its host `mmc0`.
        let (host, _) = card.split_once(':')?;
        host.starts_with("mmc")
            .then(|| self.debug.join(host).join(&card).join("ext_csd"))
    }
    /// What an eMMC says of its wear, in words; nothing of other devices.
    pub fn wear(&self) -> Option<String> {
        let life = self.read("device/life_time")?;
        let eol = self.read("device/pre_eol_info").unwrap_or_default();
        Some(format!(
            "life_time {life}, pre_eol_info {eol}: tenths of its life that are used, spare blocks (1: normal)"
        ))
    }
}

/// The register in a file, with a clear error.
pub fn ext_csd(path: &Path) -> Result<ExtCsd, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    ExtCsd::from_hex(&text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder like /sys with an eMMC of one partition.
    fn sys(root: &Path) -> Disk {
        let card = root.join("devices/soc/mmc0/mmc0:0001");
        let disk = card.join("block/mmcblk0");
        fs::create_dir_all(disk.join("mmcblk0p1")).unwrap();
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::write(disk.join("mmcblk0p1/partition"), "1\n").unwrap();
        fs::write(disk.join("queue/max_sectors_kb"), "1022\n").unwrap();
        symlink("../..", disk.join("device")).unwrap();
        fs::write(card.join("name"), "BJTD4R\n").unwrap();
        fs::write(card.join("life_time"), "0x01 0x02\n").unwrap();
        fs::write(card.join("pre_eol_info"), "0x01\n").unwrap();
        fs::create_dir_all(root.join("dev/block")).unwrap();
        symlink(disk.join("mmcblk0p1"), root.join("dev/block/179:1")).unwrap();
        Disk::by_number(root, rustix::fs::makedev(179, 1)).unwrap()
    }

    #[test]
    fn a_partition_leads_to_its_card_and_the_card_to_its_register() {
        let root = tempfile::tempdir().unwrap();
        let disk = sys(root.path());
        assert_eq!(
            (disk.name.as_str(), disk.like()),
            ("mmcblk0", "emmc-odroid-xu4")
        );
        assert_eq!(disk.title(), "/dev/mmcblk0 (BJTD4R)");
        let register = root.path().join("kernel/debug/mmc0/mmc0:0001/ext_csd");
        assert_eq!(disk.ext_csd_file().unwrap(), register);
        assert!(disk.wear().unwrap().starts_with("life_time 0x01 0x02"));
        let given = disk.given("emmc");
        assert_eq!(
            (given[0].field.as_str(), &given[0].value),
            ("card.max_transfer_kib", &Value::Integer(1020))
        );
        assert!(Disk::by_number(root.path(), rustix::fs::makedev(8, 0)).is_none());
    }

    #[test]
    fn a_register_that_is_cut_short_is_refused_with_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "00".repeat(511)).unwrap();
        let why = ext_csd(file.path()).err().unwrap();
        assert!(
            why.contains("1022 characters") && why.contains("512 bytes"),
            "{why}"
        );
        fs::write(file.path(), "0g".repeat(512)).unwrap();
        assert!(
            ext_csd(file.path())
                .err()
                .unwrap()
                .contains("character 1 is `g`")
        );
    }
}
