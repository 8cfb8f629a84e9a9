//! Stacks of a thread of this very program, which waits in a call.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]
#![cfg(target_arch = "x86_64")]

use super::memory::{Process, Registers};
use super::{Frame, STACKS_MAX, Stacks, unwind};
use crate::record::{ACKS, Recorder, volume};
use std::hint::black_box;
use std::io::{Read, Write, pipe};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::Duration;
use vfs::{Creds, FileSystem, Requester, SetAttr};

/// Waits for a byte: what other threads see of this one is a call into the kernel.
#[inline(never)]
fn waits_in_a_call(reader: &mut impl Read) -> u8 {
    let mut byte = [0];
    reader.read_exact(&mut byte).expect("a byte");
    black_box(byte[0])
}

/// Calls by a pointer, with bytes on the stack in which a search may get lost.
#[inline(never)]
fn calls_by_a_pointer(inner: &mut dyn FnMut() -> u8) -> u8 {
    let noise = black_box([0xff_u8; 600]);
    inner() ^ noise[0] ^ black_box(noise[1])
}

/// Runs `look` while a thread waits below the two functions above.
fn with_a_waiting_thread<T>(look: impl FnOnce(u32) -> T) -> T {
    let (mut reader, mut writer) = pipe().expect("a pipe");
    let (sender, receiver) = channel();
    let thread = spawn(move || {
        let own = rustix::thread::gettid().as_raw_pid() as u32;
        sender.send(own).expect("it is waited for");
        calls_by_a_pointer(&mut || waits_in_a_call(&mut reader))
    });
    let id = receiver.recv().expect("a thread");
    while Registers::of(id).is_none() {
        sleep(Duration::from_millis(1));
    }
    sleep(Duration::from_millis(20));
    let seen = look(id);
    writer.write_all(b"x").expect("room");
    thread.join().expect("it ends");
    seen
}

#[test]
fn the_frames_of_a_waiting_thread_are_told() {
    let stacks = Stacks::new(0);
    let (first, second) = with_a_waiting_thread(|id| {
        let capture = || stacks.capture();
        Requester(id).scope(|| (capture(), capture()))
    });
    let id = first.expect("a stack");
    assert_eq!(Some(id), second, "equal stacks are kept once");
    let names = &stacks.names(Path::new("/"))[id.index()];
    let own: Vec<&String> = names
        .iter()
        .filter(|name| name.contains("stack/tests.rs:"))
        .collect();
    assert!(own[0].contains("waits_in_a_call"), "{names:#?}");
    assert!(
        own.iter().any(|name| name.contains("calls_by_a_pointer")),
        "{names:#?}"
    );
    // What the C library and the library of Rust do around them is left out.
    assert_eq!(names.first(), own.first().copied(), "{names:#?}");
    assert_eq!(names.last(), own.last().copied(), "{names:#?}");
}

#[test]
fn neither_the_kernel_nor_a_thread_that_is_gone_has_a_stack() {
    let stacks = Stacks::new(0);
    assert!(stacks.capture().is_none(), "nobody asks");
    assert!(Requester(0).scope(|| stacks.capture()).is_none());
    assert!(
        Requester(u32::MAX >> 1)
            .scope(|| stacks.capture())
            .is_none()
    );
}

/// record-R4.
#[test]
fn stacks_are_told_as_far_as_the_room_goes() {
    let told = |room: usize| {
        let fs = volume(32 << 20, (0, 0)).expect("a volume");
        let recorder = Recorder::new(fs, room, &[], Box::new(|_| ()));
        recorder.read_stacks(0);
        recorder.begin().expect("an empty volume");
        with_a_waiting_thread(|id| {
            let root = recorder.root();
            let creds = Creds::default();
            let make = || recorder.mkdir(root, b"d", 0o755, creds);
            Requester(id).scope(make).expect("room for the call");
        });
        let mut recording = recorder.end().expect("room").0;
        let without = recorder.tell_stacks(&mut recording, Path::new("/"));
        (recording.calls[0].stack.len(), without)
    };
    let (frames, without) = told(1 << 20);
    assert!(
        frames >= 2 && without == 0,
        "{frames} frames, {without} without"
    );
    assert_eq!(told(600), (0, 1));
}

#[test]
fn an_acknowledgement_that_another_call_ends_has_no_stack_of_that() {
    let fs = volume(32 << 20, (0, 0)).expect("a volume");
    let recorder = Recorder::new(fs, 1 << 20, &[], Box::new(|_| ()));
    recorder.read_stacks(0);
    recorder.begin().expect("an empty volume");
    let root = recorder.root();
    let acks = recorder.lookup(root, ACKS.as_bytes()).expect("it is there");
    with_a_waiting_thread(|id| {
        let creds = Creds::default();
        Requester(id).scope(|| {
            recorder.write(acks, 0, b"unended").expect("room");
            recorder.mkdir(root, b"d", 0o755, creds).expect("room");
            let empty = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            recorder.setattr(acks, &empty).expect("it ends the line");
        });
    });
    let mut recording = recorder.end().expect("room").0;
    recorder.tell_stacks(&mut recording, Path::new("/"));
    let stacks: Vec<bool> = recording
        .calls
        .iter()
        .map(|call| !call.stack.is_empty())
        .collect();
    assert_eq!(stacks, [true, false]);
}

/// stack-T3.
#[test]
fn a_recording_keeps_so_many_stacks_and_no_more() {
    let stacks = Stacks::new(0);
    {
        let mut seen = stacks.seen.lock();
        let frame = |address| Frame { module: 0, address };
        seen.stacks = (0..STACKS_MAX as u64).map(|n| vec![frame(n)]).collect();
    }
    let last = with_a_waiting_thread(|id| Requester(id).scope(|| stacks.capture()));
    assert!(last.is_none());
    assert_eq!(stacks.seen.lock().stacks.len(), STACKS_MAX);
}

/// stack-T2.
#[test]
fn a_file_of_the_mount_is_not_opened() {
    let own = std::env::current_exe().expect("a path");
    let mount = std::os::unix::fs::MetadataExt::dev(&own.metadata().expect("it is there"));
    let frames = |mount| {
        with_a_waiting_thread(|id| {
            let registers = Registers::of(id).expect("it waits");
            let (mut process, stacks) = (Process::default(), Stacks::new(mount));
            let frames = unwind::walk(&mut process, &stacks, id, registers);
            let last = frames.last().expect("the innermost is there").module;
            let modules = stacks.modules.lock();
            let last = modules.get(last);
            (frames.len(), last.0.path.clone(), last.1)
        })
    };
    let (all, ..) = frames(0);
    let (some, path, opened) = frames(mount);
    assert!(some < all, "{some} of {all} frames");
    assert!(!opened, "{path}");
}
