//! The `ioctl` calls that file systems of Linux share (`linux/fs.h`).

use super::{Caller, Server};
use base::bytes::{get_le32, get_le64};
use vfs::{Errno, FileFlags};

const FITRIM: u32 = 0xC018_5879;
const GET_VERSION: u32 = 0x8008_7601;
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_XATTR: u32 = 0x801C_581F;
const SET_XATTR: u32 = 0x401C_5820;
/// `EXT4_IOC_SHUTDOWN`, `F2FS_IOC_SHUTDOWN`, `XFS_IOC_GOINGDOWN`. Declared as if it read a number,
/// so the kernel hands none on: it is taken to ask for the log to be written first, which keeps all
/// that the other two ways promise.
const SHUTDOWN: u32 = 0x8004_587D;
/// `struct fstrim_range`: start, length, smallest piece; the length comes back as what was trimmed.
const RANGE_BYTES: usize = 24;
/// `struct fsxattr`: flags, extent size, extents, project, copy-on-write extent size, 8 bytes
/// unused.
const FSXATTR_BYTES: usize = 28;
const PROJECT_AT: usize = 12;

impl Server {
    /// Answers an `ioctl` on a file or directory with the bytes that go back; `None` for one that
    /// is not known (ENOTTY).
    ///
    /// # Errors
    /// EINVAL for too few bytes; of the call.
    pub fn ioctl(
        &self,
        caller: Caller,
        number: u64,
        command: u32,
        data: &[u8],
    ) -> Result<Option<Vec<u8>>, Errno> {
        let need = |len| match data.len() < len {
            true => Err(Errno::Inval),
            false => Ok(()),
        };
        let answer = match command {
            FITRIM => {
                need(RANGE_BYTES)?;
                let (start, len) = (get_le64(data, 0), get_le64(data, 8));
                let trimmed = self.trim(caller, start, len, get_le64(data, 16))?;
                let mut range = data[..RANGE_BYTES].to_vec();
                range[8..16].copy_from_slice(&trimmed.to_le_bytes());
                range
            }
            GET_VERSION => self.getattr(number)?.generation.to_le_bytes().to_vec(),
            GET_FLAGS => self.file_flags(number)?.0.to_le_bytes().to_vec(),
            SET_FLAGS => {
                need(4)?;
                self.change_flags(caller, number, FileFlags(get_le32(data, 0)))?;
                Vec::new()
            }
            GET_XATTR => {
                let mut out = vec![0; FSXATTR_BYTES];
                out[..4].copy_from_slice(&self.file_flags(number)?.to_xflags().to_le_bytes());
                let project = self.project(number)?;
                out[PROJECT_AT..PROJECT_AT + 4].copy_from_slice(&project.to_le_bytes());
                out
            }
            SET_XATTR => {
                need(FSXATTR_BYTES)?;
                let old = self.file_flags(number)?;
                let flags = old.with_xflags(get_le32(data, 0))?;
                self.change_flags(caller, number, flags)?;
                self.set_project(number, get_le32(data, PROJECT_AT))?;
                Vec::new()
            }
            SHUTDOWN => {
                self.go_down(caller)?;
                Vec::new()
            }
            _ => return Ok(None),
        };
        Ok(Some(answer))
    }

    /// Ends the volume as a power cut would, for the superuser.
    fn go_down(&self, caller: Caller) -> Result<(), Errno> {
        match caller.uid {
            0 => self.run(|| self.vfs().fs().go_down()),
            _ => Err(Errno::Perm),
        }
    }

    /// The kernel has checked the right to change flags, except for one flag, which takes room in
    /// the journal and is the superuser's.
    fn change_flags(&self, caller: Caller, number: u64, flags: FileFlags) -> Result<(), Errno> {
        let change = self.file_flags(number)?.0 ^ flags.0;
        match change & FileFlags::JOURNAL_DATA.0 != 0 && caller.uid != 0 {
            true => Err(Errno::Perm),
            false => self.set_file_flags(number, flags),
        }
    }
}
