//! What the host tells of a thread that waits in a call: two registers, its mappings, its memory.
//! All of it is only read (stack-T1).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes of the stack that are read at once.
const WINDOW: usize = 16 << 10;

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// Stack pointer.
    pub stack: u64,
    /// The instruction behind the call into the kernel.
    pub instruction: u64,
}

impl Registers {
    /// Those of a thread that waits in a call; `None` if it runs, or the host does not tell.
    pub fn of(thread: u32) -> Option<Registers> {
        let text = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
        let mut last = text.split_whitespace().rev();
        let mut hex = || u64::from_str_radix(last.next()?.strip_prefix("0x")?, 16).ok();
        let (instruction, stack) = (hex()?, hex()?);
        Some(Registers { stack, instruction })
    }
}

/// A mapping of a file into a process that may be executed.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind it.
    pub end: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Device number of the file.
    pub device: u64,
    /// Its path.
    pub path: String,
}

/// What is known of a process, by one of its threads.
#[derive(Default)]
pub struct Process {
    /// Its program: another one after an `exec`.
    program: PathBuf,
    mappings: Vec<Mapping>,
}

impl Process {
    /// Reads the mappings again if the program is another one, or `address` lies in none of them:
    /// libraries come later.
    pub fn refresh(&mut self, thread: u32, address: u64) -> Option<()> {
        // Of a program on the mount the mount would have to tell the attributes (stack-T2), so the
        // link is read and not followed.
        let program = fs::read_link(format!("/proc/{thread}/exe")).ok()?;
        if program != self.program || self.mapping(address).is_none() {
            let text = fs::read_to_string(format!("/proc/{thread}/maps")).ok()?;
            self.program = program;
            self.mappings = text.lines().filter_map(mapping).collect();
        }
        Some(())
    }

    /// The mapping that holds an address.
    pub fn mapping(&self, address: u64) -> Option<&Mapping> {
        let at = self.mappings.partition_point(|map| map.end <= address);
        self.mappings.get(at).filter(|map| map.start <= address)
    }
}

/// A line of `/proc/PID/maps`: `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE PATH`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let offset = words.next()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let path = words.nth(1)?.trim_start();
    if !permissions.contains('x') || !path.starts_with('/') {
        return None;
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        device: rustix::fs::makedev(number(major)?, number(minor)?),
        path: path.into(),
    })
}

/// The memory of a thread, with a part of its stack read ahead.
pub struct Memory {
    file: File,
    begin: u64,
    window: Vec<u8>,
}

impl Memory {
    /// That of a thread whose stack is used from `stack` on.
    pub fn of(thread: u32, stack: u64) -> Option<Memory> {
        let file = File::open(format!("/proc/{thread}/mem")).ok()?;
        let mut window = vec![0; WINDOW];
        let read = file.read_at(&mut window, stack).ok()?;
        window.truncate(read);
        let begin = stack;
        Some(Memory {
            file,
            begin,
            window,
        })
    }

    /// Eight bytes as a number.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Fills `bytes` from `address` on.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let at = address.checked_sub(self.begin);
        let at = at.and_then(|at| usize::try_from(at).ok());
        let inside = at.and_then(|at| self.window.get(at..at.checked_add(bytes.len())?));
        match inside {
            Some(inside) => bytes.copy_from_slice(inside),
            None => self.file.read_exact_at(bytes, address).ok()?,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_and_has_a_file_is_a_mapping() {
        let line = "7f01-7f05 r-xp 00001000 fe:01 1234       /usr/lib/with space.so";
        let map = mapping(line).expect("a mapping");
        assert_eq!((map.start, map.end, map.offset), (0x7f01, 0x7f05, 0x1000));
        assert_eq!(map.path, "/usr/lib/with space.so");
        assert_eq!(map.device, rustix::fs::makedev(0xfe, 1));
        assert!(mapping("7f01-7f05 r--p 00001000 fe:01 1234 /usr/lib/x.so").is_none());
        assert!(mapping("7f01-7f05 r-xp 00000000 00:00 0 [vdso]").is_none());
        assert!(mapping("7f01-7f05 r-xp 00000000 00:00 0 ").is_none());
        assert!(mapping("nonsense").is_none());
    }
}
