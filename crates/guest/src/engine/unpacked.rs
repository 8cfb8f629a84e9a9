//! The kernel of a package without its packing.
//!
//! A packed kernel unpacks itself while it boots. On an emulated processor that is three of the
//! five seconds that a boot takes, and the host does it in half a second, once for each process. An
//! unpacked kernel has no code of its own to be loaded by, so QEMU begins at the entry that it
//! names for the hypervisor Xen (PVH, Documentation/arch/x86/boot.rst has the packed kind's).

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// How the payload of a kernel may begin, what unpacks it, and how many bytes behind it are not the
/// packer's: the size, which gzip has in its own format.
const PACKERS: [(&[u8], &str, usize); 3] = [
    (b"\xfd7zXZ\0", "xz", 4),
    (b"\x28\xb5\x2f\xfd", "zstd", 4),
    (b"\x1f\x8b", "gzip", 0),
];
/// Head of the note that names the entry (`XEN_ELFNOTE_PHYS32_ENTRY`) behind the description's
/// size: its type, and its owner.
const ENTRY: [u8; 8] = *b"\x12\0\0\0Xen\0";

/// Where QEMU finds this kernel, unpacked if the host can do that.
pub(super) fn path(kernel: &Path) -> PathBuf {
    static UNPACKED: OnceLock<(PathBuf, Option<File>)> = OnceLock::new();
    // A process that has one machine has one kernel.
    match UNPACKED.get_or_init(|| (kernel.to_path_buf(), unpack(kernel))) {
        (of, Some(file)) if of == kernel => {
            let (process, number) = (std::process::id(), file.as_raw_fd());
            format!("/proc/{process}/fd/{number}").into()
        }
        _ => kernel.to_path_buf(),
    }
}

/// The kernel in memory, or nothing if it has another format, no entry, or its packer is missing.
fn unpack(kernel: &Path) -> Option<File> {
    let packed = fs::read(kernel).ok()?;
    let (payload, packer) = payload(&packed)?;
    let fd = memfd_create("vmlinux", MemfdFlags::CLOEXEC).ok()?;
    let file = File::from(fd);
    let mut child = Command::new(packer)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(file.try_clone().ok()?)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let written = child.stdin.take()?.write_all(payload);
    let ended = child.wait().ok()?;
    (written.is_ok() && ended.success()).then_some(())?;
    let unpacked = fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    has_entry(&unpacked).then_some(file)
}

/// The packed part of a kernel by the fields of its boot protocol (2.08 or later), and its packer.
fn payload(kernel: &[u8]) -> Option<(&[u8], &'static str)> {
    let u32_at = |at: usize| {
        let bytes = kernel.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let u16_at = |at: usize| Some((u32_at(at)? & 0xffff) as usize);
    (kernel.get(0x202..0x206)? == b"HdrS" && u16_at(0x206)? >= 0x208).then_some(())?;
    // The setup code has four sectors if it says none, and a boot sector before it.
    let sectors = match *kernel.get(0x1f1)? {
        0 => 4,
        n => usize::from(n),
    };
    let from = (sectors + 1) * 512 + u32_at(0x248)? as usize;
    let payload = kernel.get(from..from.checked_add(u32_at(0x24c)? as usize)?)?;
    let (_, packer, behind) = PACKERS
        .iter()
        .find(|(magic, ..)| payload.starts_with(magic))?;
    Some((&payload[..payload.len() - behind], packer))
}

/// Whether QEMU can begin in this kernel.
fn has_entry(kernel: &[u8]) -> bool {
    kernel.starts_with(b"\x7fELF") && kernel.windows(ENTRY.len()).any(|bytes| bytes == ENTRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel whose payload is `packed`, as its packer leaves it.
    fn packed(packed: &[u8]) -> Vec<u8> {
        let mut kernel = vec![0; 5 * 512];
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        kernel[0x248..0x24c].copy_from_slice(&7_u32.to_le_bytes());
        kernel[0x24c..0x250].copy_from_slice(&(packed.len() as u32).to_le_bytes());
        kernel.extend([0; 7]);
        kernel.extend(packed);
        kernel.extend([1; 99]);
        kernel
    }

    #[test]
    fn the_payload_is_found_and_its_size_left_off() {
        let xz = b"\xfd7zXZ\0abcdSIZE";
        let kernel = packed(xz);
        assert_eq!(payload(&kernel), Some((&xz[..10], "xz")));
        let gzip = packed(b"\x1f\x8bab");
        assert_eq!(payload(&gzip), Some((&b"\x1f\x8bab"[..], "gzip")));
        assert_eq!(payload(&packed(b"another")), None);
        assert_eq!(payload(&kernel[..kernel.len() - 105]), None, "cut off");
        let mut old = kernel;
        old[0x206] = 0x07;
        assert_eq!(payload(&old), None, "of a protocol without these fields");
    }

    #[test]
    fn what_is_unpacked_is_the_kernel_that_was_packed() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, kernel) = (folder.path().join("plain"), folder.path().join("kernel"));
        for (content, usable) in [
            (&b"\x7fELF..\x12\0\0\0Xen\0.."[..], true),
            (b"\x7fELF", false),
        ] {
            fs::write(&plain, content).unwrap();
            let gzip = Command::new("gzip").arg("-c").arg(&plain).output().unwrap();
            fs::write(&kernel, packed(&gzip.stdout)).unwrap();
            let unpacked = unpack(&kernel);
            assert_eq!(unpacked.is_some(), usable);
            if let Some(file) = unpacked {
                let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
                assert_eq!(fs::read(path).unwrap(), content);
            }
        }
        assert_eq!(path(&plain), plain, "no kernel of ours is taken as it is");
    }
}
