//! `sync` and `syncfs` of the recorded program. A mount of FUSE is not told of either, so they are
//! seen where they are asked for: a filter of the command stops them (seccomp, user notification),
//! the volume is synced, which notes the call, and then they go on.
//!
//! The same filter sees who asks for a file without a name (`O_TMPFILE`) or moves content
//! (`fallocate`), of which a mount of FUSE is not told either: the call goes on, is refused by the
//! kernel, and is counted as refused.
//!
//! The filter is inherited by all that the command starts. It stops nothing else, and what it costs
//! is nothing beside a system call.

use super::Recorder;
use rt::JoinHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, metadata};
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::Requester;

/// How often a listener looks whether it is over.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// Requests of the listener (linux/seccomp.h).
const RECEIVE: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
const ANSWER: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;
/// In an answer: the call goes on.
const GO_ON: u32 = 1;
/// Of a filter (linux/seccomp.h).
const KILLABLE: libc::c_ulong = 1 << 5;

/// The numbers of `sync` and `syncfs` of one kind of programs, which hang on the machine whose
/// calls they make.
struct Abi {
    /// Of linux/audit.h.
    machine: u32,
    sync: u32,
    syncfs: u32,
}

/// Set in the numbers of programs of 64 bits with pointers of 32.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const ABIS: [Abi; 3] = [
    Abi {
        machine: 0xc000_003e,
        sync: libc::SYS_sync as u32,
        syncfs: libc::SYS_syncfs as u32,
    },
    Abi {
        machine: 0xc000_003e,
        sync: X32 | libc::SYS_sync as u32,
        syncfs: X32 | libc::SYS_syncfs as u32,
    },
    // i386.
    Abi {
        machine: 0x4000_0003,
        sync: 36,
        syncfs: 344,
    },
];
#[cfg(target_arch = "aarch64")]
const ABIS: [Abi; 2] = [
    Abi {
        machine: 0xc000_00b7,
        sync: libc::SYS_sync as u32,
        syncfs: libc::SYS_syncfs as u32,
    },
    // ARM of 32 bits.
    Abi {
        machine: 0x4000_0028,
        sync: 36,
        syncfs: 373,
    },
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ABIS: [Abi; 0] = [];

/// A call that the kernel refuses on a mount of FUSE where an argument has a flag.
struct Lacking {
    call: u32,
    argument: usize,
    flags: u32,
}

/// Flags that ask for a file without a name, and those of content that moves.
const UNNAMED: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
const MOVES: u32 = (libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE) as u32;
const OPENAT: Lacking = Lacking {
    call: libc::SYS_openat as u32,
    argument: 2,
    flags: UNNAMED,
};
const FALLOCATE: Lacking = Lacking {
    call: libc::SYS_fallocate as u32,
    argument: 1,
    flags: MOVES,
};
#[cfg(target_arch = "x86_64")]
const LACKING: [Lacking; 3] = [
    OPENAT,
    FALLOCATE,
    Lacking {
        call: libc::SYS_open as u32,
        argument: 1,
        flags: UNNAMED,
    },
];
#[cfg(not(target_arch = "x86_64"))]
const LACKING: [Lacking; 2] = [OPENAT, FALLOCATE];
/// Steps of the filter for these calls.
const OPEN_STEPS: usize = 3 + 3 * LACKING.len();
/// Longest path, bytes.
const PATH_MAX: usize = 4096;

/// Sees the syncs of a command.
pub struct Syncs {
    seen: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    /// Where the listener waits for the filter.
    waiting: UnixStream,
    listener: JoinHandle<()>,
}

impl Syncs {
    /// Prepares a command, which is started afterwards, whose volume is mounted at `dir`.
    ///
    /// # Errors
    /// The host refuses a socket, or `dir` is not there.
    pub fn of(command: &mut Command, dir: &Path, recorder: &Arc<Recorder>) -> io::Result<Syncs> {
        let mount = File::open(dir)?;
        let (ours, theirs) = UnixStream::pair()?;
        let waiting = ours.try_clone()?;
        let flag = || Arc::new(AtomicBool::new(false));
        let (seen, over) = (flag(), flag());
        let listener = Listener {
            device: mount.metadata()?.dev(),
            mount,
            recorder: Arc::clone(recorder),
            over: Arc::clone(&over),
        };
        let noted = Arc::clone(&seen);
        let listener = rt::try_spawn("syncs of the command", move || {
            // The host has no such filters, or the command was never started.
            if let Some(filter) = received(&ours) {
                noted.store(listener.listen(&filter), Ordering::Release);
            }
        })?;
        let mut steps = steps();
        // SAFETY: it makes system calls only, of memory that is there before the fork.
        unsafe {
            command.pre_exec(move || {
                if !ABIS.is_empty() {
                    send(theirs.as_raw_fd(), filter(&mut steps));
                }
                Ok(())
            });
        }
        Ok(Syncs {
            seen,
            over,
            waiting,
            listener,
        })
    }

    /// Ends it when no process of the command is left. False: the host does not let syncs be seen,
    /// or did not of some process.
    pub fn close(self) -> bool {
        self.over.store(true, Ordering::Release);
        // It may have gone.
        let _ = self.waiting.shutdown(std::net::Shutdown::Both);
        // Its panic would have been reported where it happened.
        let _ = self.listener.join();
        self.seen.load(Ordering::Acquire)
    }
}

/// The program of the filter: a block for each kind of programs, and two ends.
fn steps() -> Vec<libc::sock_filter> {
    let load = |k: usize| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, k as u32);
    let branch = |k, yes, no| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, k);
    let end = |k: u32| step(libc::BPF_RET | libc::BPF_K, 0, 0, k);
    let block = |(nr, abi): (usize, &Abi)| {
        // Steps of the blocks behind this one, and the end that lets the call go on.
        let rest = (5 * (ABIS.len() - 1 - nr) + OPEN_STEPS) as u8 + 1;
        [
            load(offset_of!(libc::seccomp_data, arch)),
            branch(abi.machine, 0, 3),
            load(offset_of!(libc::seccomp_data, nr)),
            branch(abi.sync, rest + 1, 0),
            branch(abi.syncfs, rest, 0),
        ]
    };
    let mut steps: Vec<_> = ABIS.iter().enumerate().flat_map(block).collect();
    steps.extend(open_steps(&load, &branch));
    steps.push(end(libc::SECCOMP_RET_ALLOW));
    steps.push(end(libc::SECCOMP_RET_USER_NOTIF));
    steps
}

/// The block for calls that ask for a file without a name; behind it stand the two ends.
fn open_steps(
    load: &dyn Fn(usize) -> libc::sock_filter,
    branch: &dyn Fn(u32, u8, u8) -> libc::sock_filter,
) -> Vec<libc::sock_filter> {
    let all = OPEN_STEPS as u8;
    let machine = ABIS.first().map_or(0, |abi| abi.machine);
    let mut steps = vec![
        load(offset_of!(libc::seccomp_data, arch)),
        branch(machine, 0, all - 2),
        load(offset_of!(libc::seccomp_data, nr)),
    ];
    for lacking in LACKING {
        // Steps of the block behind these three.
        let rest = all - steps.len() as u8 - 3;
        steps.push(branch(lacking.call, 0, 2));
        // The lower half of the argument.
        steps.push(load(
            offset_of!(libc::seccomp_data, args) + 8 * lacking.argument,
        ));
        steps.push(step(
            libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
            rest + 1,
            rest,
            lacking.flags,
        ));
    }
    steps
}

/// Puts a filter over this process; its listener, or a negative number.
fn filter(steps: &mut [libc::sock_filter]) -> RawFd {
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    let install = |flags: libc::c_ulong| {
        // SAFETY: the program and its steps live until the call returns, which copies them.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            ) as RawFd
        }
    };
    // No signal but a deadly one ends a call that is being answered: `sync` is never interrupted.
    // Kernels before 5.19 know no such flag.
    let either = || match install(KILLABLE) {
        refused if refused < 0 && last_error() == libc::EINVAL => install(0),
        answer => answer,
    };
    match either() {
        // Whoever is not root may do so after a promise to gain no rights by exec.
        refused if refused < 0 && last_error() == libc::EACCES => {
            // SAFETY: it takes no memory.
            match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
                0 => either(),
                _ => refused,
            }
        }
        answer => answer,
    }
}

fn last_error() -> i32 {
    // Makes no memory: it reads what the last call of this thread has left.
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Room of a message with one descriptor.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Sends a descriptor, of which this process needs nothing further.
fn send(to: RawFd, fd: RawFd) {
    if fd < 0 {
        return;
    }
    let (mut byte, mut control) = (0_u8, Control([0; 32]));
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: all zeros is an empty message; the pointers lead to what outlives the call; the room
    // for the descriptor is large enough and aligned.
    unsafe {
        let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(head).cast::<RawFd>().write_unaligned(fd);
        // Without it nobody listens, so that the calls fail: the descriptor is closed by exec.
        libc::sendmsg(to, &raw const message, 0);
    }
}

/// Waits for a descriptor; `None`: none comes.
fn received(from: &UnixStream) -> Option<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(&mut byte)];
    let flags = rustix::net::RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(from, &mut parts, &mut control, flags).ok()?;
    control.drain().find_map(|message| match message {
        rustix::net::RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })
}

/// A path in the memory of a thread.
fn path_at(thread: u32, address: u64) -> io::Result<Vec<u8>> {
    let memory = File::open(format!("/proc/{thread}/mem"))?;
    let mut bytes = vec![0; PATH_MAX];
    // What lies behind the path may not be there.
    let read = memory.read_at(&mut bytes, address)?;
    bytes.truncate(read);
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.truncate(end.unwrap_or(0));
    Ok(bytes)
}

struct Listener {
    mount: File,
    device: u64,
    recorder: Arc<Recorder>,
    over: Arc<AtomicBool>,
}

impl Listener {
    /// Answers until no process has the filter any more, or it is over. False: some call of a
    /// process that may not be looked at, or all from some moment on, was not seen.
    fn listen(&self, filter: &OwnedFd) -> bool {
        let mut all = true;
        while !self.over.load(Ordering::Acquire) {
            let mut ready = [PollFd::new(filter, PollFlags::IN)];
            match poll(&mut ready, Some(&LOOK)) {
                Ok(0) => continue,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return false,
                Ok(_) => {}
            }
            let events = ready[0].revents();
            if events.contains(PollFlags::IN) {
                all &= self.answer(filter);
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR) {
                return all;
            }
        }
        all
    }

    /// Answers one call; false: it may have been one of the volume, and was not noted.
    fn answer(&self, filter: &OwnedFd) -> bool {
        // SAFETY: all zeros is a valid notification, and what the kernel demands.
        let mut asked: libc::seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the kernel fills in one notification.
        if unsafe { libc::ioctl(filter.as_raw_fd(), RECEIVE, &raw mut asked) } < 0 {
            // Its process has been killed.
            return true;
        }
        let (machine, nr) = (asked.data.arch, asked.data.nr as u32);
        if machine == ABIS[0].machine && LACKING.iter().any(|lacking| lacking.call == nr) {
            match nr == FALLOCATE.call {
                true => self.moves_content(&asked),
                false => self.opens_unnamed(&asked),
            }
            self.go_on(filter, asked.id, -libc::EOPNOTSUPP);
            return true;
        }
        let all = (ABIS.iter()).any(|abi| abi.machine == machine && abi.sync == nr);
        let ours = match all {
            true => Ok(true),
            false => self.leads_here(asked.pid, asked.data.args[0]),
        };
        let failed = matches!(ours, Ok(true)) && self.sync(asked.pid).is_err();
        // `sync` tells of no error.
        let told = failed && !all;
        let mut answer = libc::seccomp_notif_resp {
            id: asked.id,
            val: 0,
            error: if told { -libc::EIO } else { 0 },
            // What else is to be synced is for the kernel.
            flags: if told { 0 } else { GO_ON },
        };
        // SAFETY: the kernel reads one answer. Its process may have gone.
        let sent = |answer: &mut _| unsafe {
            libc::ioctl(filter.as_raw_fd(), ANSWER, std::ptr::from_mut(answer))
        };
        // Kernels before 5.5 let no call go on.
        if sent(&mut answer) < 0 && last_error() == libc::EINVAL {
            answer.flags = 0;
            sent(&mut answer);
        }
        ours.is_ok()
    }

    /// Lets a call go on; where the host lets none, it fails with the error.
    fn go_on(&self, filter: &OwnedFd, id: u64, error: i32) {
        let mut answer = libc::seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: GO_ON,
        };
        // SAFETY: the kernel reads one answer. Its process may have gone.
        let sent = |answer: &mut _| unsafe {
            libc::ioctl(filter.as_raw_fd(), ANSWER, std::ptr::from_mut(answer))
        };
        if sent(&mut answer) < 0 && last_error() == libc::EINVAL {
            (answer.flags, answer.error) = (0, error);
            sent(&mut answer);
        }
    }

    /// Counts a call that moves content of a file of the volume.
    fn moves_content(&self, asked: &libc::seccomp_notif) {
        let fd = asked.data.args[0];
        if matches!(self.leads_here(asked.pid, fd), Ok(true)) {
            let link = std::fs::read_link(format!("/proc/{}/fd/{}", asked.pid, fd as i32));
            let name = link.ok().and_then(|link| link.file_name().map(Into::into));
            let name: std::ffi::OsString = name.unwrap_or_default();
            let name = base::plain::shown(name.as_bytes());
            let call = "fallocate(FALLOC_FL_COLLAPSE_RANGE or FALLOC_FL_INSERT_RANGE)";
            self.recorder.note_refused(call, &name);
        }
    }

    /// Counts a call that asks for a file without a name on the volume.
    fn opens_unnamed(&self, asked: &libc::seccomp_notif) {
        let args = &asked.data.args;
        let (dir, path) = match asked.data.nr as u32 == OPENAT.call {
            true => (args[0] as i32, args[1]),
            false => (libc::AT_FDCWD, args[0]),
        };
        let Ok(path) = path_at(asked.pid, path) else {
            return;
        };
        let from = match (path.first(), dir) {
            (Some(b'/'), _) => String::from("root"),
            (_, libc::AT_FDCWD) => String::from("cwd"),
            (_, dir) => format!("fd/{dir}"),
        };
        let mut whole = format!("/proc/{}/{from}/", asked.pid).into_bytes();
        whole.extend(&path);
        let dir = metadata(std::ffi::OsStr::from_bytes(&whole));
        if dir.is_ok_and(|dir| dir.dev() == self.device) {
            let path = base::plain::shown(&path);
            self.recorder.note_refused("open(O_TMPFILE)", &path);
        }
    }

    /// Whether a descriptor of that thread is one of the volume that can be synced.
    fn leads_here(&self, thread: u32, fd: u64) -> io::Result<bool> {
        let path = format!("/proc/{thread}/fd/{}", fd as i32);
        let file = match metadata(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        if file.dev() != self.device {
            return Ok(false);
        }
        let info = std::fs::read_to_string(format!("/proc/{thread}/fdinfo/{}", fd as i32))?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        Ok(flags.is_none_or(|flags| flags & libc::O_PATH == 0))
    }

    /// What the kernel keeps of shared mappings is written first, then all is synced.
    fn sync(&self, thread: u32) -> io::Result<()> {
        rustix::fs::syncfs(&self.mount)?;
        let synced = Requester(thread).scope(|| vfs::FileSystem::sync(&*self.recorder));
        synced.map_err(|e| io::Error::other(e.to_string()))
    }
}
