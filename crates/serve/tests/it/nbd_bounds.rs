//! Bounds of NBD whose guards no other test sees missing.

use crate::bounds::Coarse;
use crate::device::{Spy, by_nbd};
use crate::nbd::{Raw, named};
use blockdev::Ram;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use varve_serve::Served;

const TRIM: u16 = 4;
const BLOCK_STATUS: u16 = 7;

#[test]
fn options_without_end_and_unknown_flags_end_the_connection() {
    let told = by_nbd(Served::new(Spy::new(true)).unwrap(), named(""), |socket| {
        let mut raw = Raw::greeted(socket);
        for _ in 0..1000 {
            raw.option(99, b"");
            assert_eq!(raw.kind(), 0x8000_0001);
        }
        raw.rest_of_silent();
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&7u32.to_be_bytes()).unwrap();
        Raw(stream).rest_of_silent();
    });
    let why = ["options without end", "flags 0x7 of the client"];
    assert!(told.len() == 2, "{told:?}");
    assert!(
        told.iter().zip(why).all(|(told, why)| told.contains(why)),
        "{told:?}"
    );
}

#[test]
fn a_trim_of_nothing_or_that_is_not_offered_is_refused() {
    let ram = || Arc::new(Ram::new(1 << 20));
    by_nbd(Served::new(ram()).unwrap(), named(""), |socket| {
        let mut raw = Raw::begun(socket);
        raw.request(0, TRIM, 0, 0);
        assert_eq!(raw.error(), 22);
        raw.request(0, TRIM, 0, 4096);
        assert_eq!(raw.error(), 0);
    });
    let coarse = Arc::new(Coarse(Ram::new(1 << 20)));
    by_nbd(Served::new(coarse).unwrap(), named(""), |socket| {
        let mut raw = Raw::begun(socket);
        raw.request(0, TRIM, 0, 4096);
        assert_eq!(raw.error(), 95);
    });
}

/// One question looks at 256 MiB at the most, however much it asks for.
#[test]
fn a_question_for_zeros_has_a_bound() {
    let looked = Arc::new(AtomicU64::new(0));
    let counted = looked.clone();
    let served = Served::new(Arc::new(Ram::new(512 << 20))).unwrap();
    let served = served.zeroes_by(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        true
    });
    by_nbd(served, named(""), |socket| {
        let mut raw = Raw::greeted(socket);
        raw.option(8, b"");
        assert_eq!(raw.kind(), 1);
        let query = [
            &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 15][..],
            b"base:allocation",
        ]
        .concat();
        raw.option(10, &query);
        assert_eq!((raw.kind(), raw.kind()), (4, 1));
        raw.option(1, b"");
        raw.read(10);
        raw.request(0, BLOCK_STATUS, 0, 512 << 20);
        // Head of a chunk, number of the context, one run: its length and that it is zeros.
        let answer = raw.read(20 + 4 + 8);
        let length: u32 = 256 << 20;
        assert_eq!(answer[24..28], length.to_be_bytes());
        assert_eq!(answer[28..], 2u32.to_be_bytes());
    });
    assert_eq!(looked.load(Ordering::Relaxed), 65536);
}
