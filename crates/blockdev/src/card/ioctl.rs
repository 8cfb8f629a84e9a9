//! The way to a real card: `MMC_IOC_MULTI_CMD` of Linux (`linux/mmc/ioctl.h`), which sends a list
//! of commands while the kernel's own wait.
//!
//! The kernel allows it on the whole device only (`/dev/mmcblk0`, no partition) and for who may
//! `CAP_SYS_RAWIO`, with 512 KiB of data a command.

use super::command::{CardCommand, CardPort, Transfer};
use base::SECTOR_BYTES;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `MMC_IOC_MAX_BYTES`.
pub(super) const BYTES_MAX: usize = 512 << 10;

/// Major number of MMC block devices, the type of the request.
const MMC_BLOCK_MAJOR: u8 = 179;

// Flags of a command, as `linux/mmc/core.h` numbers them.
const RSP_PRESENT: u32 = 1 << 0;
const RSP_CRC: u32 = 1 << 2;
const RSP_BUSY: u32 = 1 << 3;
const RSP_OPCODE: u32 = 1 << 4;
const ADTC: u32 = 1 << 5;

/// `struct mmc_ioc_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IocCommand {
    write_flag: i32,
    is_acmd: i32,
    opcode: u32,
    arg: u32,
    response: [u32; 4],
    flags: u32,
    blksz: u32,
    blocks: u32,
    postsleep_min_us: u32,
    postsleep_max_us: u32,
    data_timeout_ns: u32,
    cmd_timeout_ms: u32,
    pad: u32,
    data_ptr: u64,
}

// The kernel compares this size with the one in the request's number.
const _: () = assert!(size_of::<IocCommand>() == 72);

/// `struct mmc_ioc_multi_cmd` is a count with the commands behind it; its number in the request
/// counts only the count.
const COUNT_BYTES: usize = size_of::<u64>();

/// An open card.
pub(super) struct Ioctl(pub File);

impl CardPort for Ioctl {
    fn send(&self, commands: &mut [CardCommand]) -> io::Result<()> {
        let mut list = vec![0_u64; 1 + commands.len() * size_of::<IocCommand>() / 8];
        list[0] = commands.len() as u64;
        let each: Vec<IocCommand> = commands.iter_mut().map(for_kernel).collect();
        // SAFETY: the list has room for the count and all commands behind it, and a command
        // consists of plain numbers without gaps.
        unsafe {
            let to = list.as_mut_ptr().add(1).cast::<IocCommand>();
            to.copy_from_nonoverlapping(each.as_ptr(), each.len());
        }
        rt::about_to_wait();
        // SAFETY: the kernel reads and writes the list, whose length its first number tells, and
        // the data of each command, which `commands` owns until the call has returned.
        let answer = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                multi_command() as libc::Ioctl,
                list.as_mut_ptr(),
            )
        };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        for (n, command) in commands.iter_mut().enumerate() {
            // SAFETY: as above; the kernel has written whole commands.
            let done = unsafe { *list.as_ptr().add(1).cast::<IocCommand>().add(n) };
            command.status = done.response[0];
        }
        Ok(())
    }
}

fn for_kernel(command: &mut CardCommand) -> IocCommand {
    let r1 = RSP_PRESENT | RSP_CRC | RSP_OPCODE;
    let (flags, write, data) = match &mut command.transfer {
        Transfer::None if command.kernel_waits => (r1 | RSP_BUSY, 0, None),
        Transfer::None => (r1, 0, None),
        Transfer::Read(bytes) => (r1 | ADTC, 0, Some((bytes.as_mut_ptr(), bytes.len()))),
        Transfer::Write(bytes) => (r1 | ADTC, 1, Some((bytes.as_mut_ptr(), bytes.len()))),
    };
    let (at, len) = data.unwrap_or((std::ptr::null_mut(), 0));
    IocCommand {
        write_flag: write,
        opcode: command.index.into(),
        arg: command.arg,
        flags,
        blksz: if len > 0 { SECTOR_BYTES as u32 } else { 0 },
        blocks: (len / SECTOR_BYTES) as u32,
        data_ptr: at as u64,
        ..IocCommand::default()
    }
}

/// `MMC_IOC_MULTI_CMD`.
fn multi_command() -> u32 {
    rustix::ioctl::opcode::read_write::<[u8; COUNT_BYTES]>(MMC_BLOCK_MAJOR, 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_laid_out_as_the_kernel_reads_them() {
        let bytes = vec![7; 1024];
        let at = bytes.as_ptr() as u64;
        let mut write = CardCommand::new(25, 4096, Transfer::Write(bytes));
        let it = for_kernel(&mut write);
        assert_eq!(
            (it.opcode, it.arg, it.write_flag, it.blksz, it.blocks),
            (25, 4096, 1, 512, 2)
        );
        // With data: PRESENT, CRC and OPCODE, and ADTC.
        assert_eq!((it.flags, it.data_ptr), (0b11_0101, at));
        let mut flush = CardCommand::write_byte(32, 1);
        let it = for_kernel(&mut flush);
        // Without: PRESENT, CRC and OPCODE, and BUSY if the kernel is to wait.
        assert_eq!((it.flags, it.arg, it.blocks), (0b1_0101, 0x0320_0101, 0));
        flush.kernel_waits = true;
        assert_eq!(for_kernel(&mut flush).flags, 0b1_1101);
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn the_request_has_the_number_of_the_header_file() {
        assert_eq!(multi_command(), 0xC008_B301);
    }

    #[test]
    fn a_file_that_is_no_card_refuses() {
        let file = tempfile::tempfile().unwrap();
        let error = Ioctl(file).send(&mut [CardCommand::ext_csd()]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY), "{error}");
    }
}
