//! The byte layouts of the protocol of FUSE that the ring carries (`linux/fuse.h`), in the byte
//! order of the machine.
//!
//! ```text
//! headers, 288 bytes        at
//!   in_out                    0   the header of the request; after the answer that of the answer
//!   op_in                   128   the first argument of the request: the structure of its kind
//!   about the entry         256   flags 0, commit_id 8, payload_sz 16
//! payload                         the other arguments of the request; after the answer its content
//! ```

/// Bytes of the headers of an entry.
pub(super) const HEADERS_BYTES: usize = 288;
/// Bytes of the place for the structure of a request.
pub(super) const OP_BYTES: usize = 128;
const OP_AT: usize = 128;
const COMMIT_ID_AT: usize = 264;
const PAYLOAD_SIZE_AT: usize = 272;
/// Bytes of the header of an answer.
const OUT_HEADER_BYTES: usize = 16;

/// Registers an entry of a queue.
pub(super) const CMD_REGISTER: u32 = 1;
/// Answers the request in an entry and asks for the next one.
pub(super) const CMD_COMMIT_AND_FETCH: u32 = 2;

/// The kinds of request that are answered over the ring.
pub(super) mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const IOCTL: u32 = 39;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
}

/// Numbers in the structure of a request. What lies outside of it reads as 0.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let found = self.0.get(at..at + N).and_then(|b| b.try_into().ok());
        found.unwrap_or([0; N])
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(at))
    }

    pub fn i32(&self, at: usize) -> i32 {
        i32::from_ne_bytes(self.bytes(at))
    }

    pub fn i64(&self, at: usize) -> i64 {
        i64::from_ne_bytes(self.bytes(at))
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub opcode: u32,
    pub unique: u64,
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

impl Head {
    /// Of the headers of an entry.
    pub fn of(headers: &[u8]) -> Head {
        let fields = Fields(headers);
        Head {
            opcode: fields.u32(4),
            unique: fields.u64(8),
            node: fields.u64(16),
            uid: fields.u32(24),
            gid: fields.u32(28),
            pid: fields.u32(32),
        }
    }
}

/// The structure of the request in the headers of an entry.
pub(super) fn op_in(headers: &[u8]) -> [u8; OP_BYTES] {
    let found = headers.get(OP_AT..OP_AT + OP_BYTES);
    found
        .and_then(|b| b.try_into().ok())
        .unwrap_or([0; OP_BYTES])
}

/// What the kernel calls the request in the entry when it is answered, and the bytes of its
/// payload.
pub(super) fn delivered(headers: &[u8]) -> (u64, usize) {
    let fields = Fields(headers);
    (
        fields.u64(COMMIT_ID_AT),
        fields.u32(PAYLOAD_SIZE_AT) as usize,
    )
}

/// Puts the answer to the request `unique` into the headers of its entry: an error number of POSIX,
/// or the bytes of the payload.
pub(super) fn put_answer(headers: &mut [u8], unique: u64, answer: Result<usize, i32>) {
    let (error, payload) = match answer {
        Ok(bytes) => (0, bytes),
        Err(errno) => (-errno, 0),
    };
    let len = (OUT_HEADER_BYTES + payload) as u32;
    headers[..4].copy_from_slice(&len.to_ne_bytes());
    headers[4..8].copy_from_slice(&error.to_ne_bytes());
    headers[8..16].copy_from_slice(&unique.to_ne_bytes());
    let size = (payload as u32).to_ne_bytes();
    headers[PAYLOAD_SIZE_AT..PAYLOAD_SIZE_AT + 4].copy_from_slice(&size);
}

/// The command in a submission: which request it answers, of which queue.
pub(super) fn command(commit_id: u64, queue: u16) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[8..16].copy_from_slice(&commit_id.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

/// The words of a payload, each ended by a NUL, and what follows the last one of `N`. `None` if
/// there are fewer.
pub(super) fn words<const N: usize>(payload: &[u8]) -> Option<([&[u8]; N], &[u8])> {
    let mut left = payload;
    let mut words = [&payload[..0]; N];
    for word in &mut words {
        let end = left.iter().position(|byte| *byte == 0)?;
        *word = &left[..end];
        left = &left[end + 1..];
    }
    Some((words, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_where_the_kernel_reads_it() {
        let mut headers = vec![7; HEADERS_BYTES];
        put_answer(&mut headers, 99, Ok(120));
        let fields = Fields(&headers);
        assert_eq!((fields.u32(0), fields.i32(4), fields.u64(8)), (136, 0, 99));
        assert_eq!(delivered(&headers).1, 120);
        put_answer(&mut headers, 98, Err(libc::ENOENT));
        let fields = Fields(&headers);
        assert_eq!((fields.u32(0), fields.i32(4), fields.u64(8)), (16, -2, 98));
        assert_eq!(delivered(&headers).1, 0);
    }

    #[test]
    fn words_without_their_end_are_no_words() {
        let (two, rest) = words::<2>(b"old\0new\0data").expect("two");
        assert_eq!((two, rest), ([&b"old"[..], b"new"], &b"data"[..]));
        assert!(words::<2>(b"old\0new").is_none());
        assert!(words::<1>(b"").is_none());
        assert_eq!(words::<1>(b"\0").expect("an empty one").0, [b""]);
    }

    #[test]
    fn fields_outside_read_as_zero() {
        let fields = Fields(&[1, 0, 0, 0]);
        assert_eq!((fields.u32(0), fields.u32(1), fields.u64(0)), (1, 0, 0));
    }
}
