//! The commands that the back end for real cards sends, against a modelled card: what Linux would
//! hand to the card goes to the model instead.
// A port is used by one thread here, outside of any simulation.
#![allow(clippy::disallowed_types)]

use crate::host::{emmc, emmc_profile};
use base::{Bytes, Lba, Rng, Time};
use blockdev::{
    BlockDevice, Card as CardDevice, CardCommand, CardPort, Class, PackedWrite, Piece, Request,
    Transfer,
};
use std::io;
use std::sync::{Arc, Mutex};
use varve_ctrl::emmc::{Command, Data, Emmc, Response, field};

/// The ioctl as the kernel carries it out, on a modelled card.
#[derive(Clone)]
struct Simulated {
    card: Arc<Mutex<Box<Emmc>>>,
    /// Indices and arguments of all commands, in order.
    sent: Arc<Mutex<Vec<(u8, u32)>>>,
    /// Fails the next list with this error.
    broken: Arc<Mutex<Option<i32>>>,
    /// Sets bits in the status of the next command with this index.
    fault: Arc<Mutex<Option<(u8, u32)>>>,
    /// The next command with this index fails while the card is busy with it: the bits stand in the
    /// status that is read next, and in none behind that.
    late: Arc<Mutex<Option<(u8, u32)>>>,
    pending: Arc<Mutex<u32>>,
    /// The card is busy for so many questions.
    busy: Arc<Mutex<u32>>,
    /// Behind the next command with this index it is busy for so many questions.
    busy_behind: Arc<Mutex<Option<(u8, u32)>>>,
    /// Bytes of the register that read otherwise.
    register: Arc<Mutex<Vec<(usize, u8)>>>,
}

impl Simulated {
    fn new(changes: &str) -> Simulated {
        let emmc = emmc(&emmc_profile(changes), None);
        Simulated {
            card: Arc::new(Mutex::new(emmc)),
            sent: Arc::default(),
            broken: Arc::default(),
            fault: Arc::default(),
            late: Arc::default(),
            pending: Arc::default(),
            busy: Arc::default(),
            busy_behind: Arc::default(),
            register: Arc::default(),
        }
    }
    fn device(&self) -> CardDevice {
        let device = CardDevice::new(Box::new(self.clone())).unwrap();
        self.sent.lock().unwrap().clear();
        device
    }
    /// Commands since the last look, without the questions for the status.
    fn sent(&self) -> Vec<(u8, u32)> {
        let mut sent = std::mem::take(&mut *self.sent.lock().unwrap());
        sent.retain(|(index, _)| *index != 13);
        sent
    }
}

impl Simulated {
    /// The status as the card gives it, but for what a test wants.
    fn answer(&self, index: u8, bits: u32) -> u32 {
        let taken = |from: &Mutex<Option<(u8, u32)>>| {
            let mut it = from.lock().unwrap();
            it.take_if(|(at, _)| *at == index).map(|(_, value)| value)
        };
        let mut pending = self.pending.lock().unwrap();
        let bits = bits | std::mem::take(&mut *pending) | taken(&self.fault).unwrap_or(0);
        *pending = taken(&self.late).unwrap_or(0);
        let mut busy = self.busy.lock().unwrap();
        if index == 13 && *busy > 0 {
            *busy -= 1;
            // Not ready for data.
            return bits & !(1 << 8);
        }
        // ILLEGAL_COMMAND: a card that is busy takes the question for its status only.
        let bits = bits | u32::from(index != 13 && *busy > 0) << 22;
        if let Some(questions) = taken(&self.busy_behind) {
            *busy = questions;
        }
        bits
    }

    /// What Linux before 6.7 does while it waits: it reads the status, which nobody else sees.
    fn kernel_waits(&self) {
        *self.pending.lock().unwrap() = 0;
        *self.busy.lock().unwrap() = 0;
    }
}

impl CardPort for Simulated {
    fn send(&self, commands: &mut [CardCommand]) -> io::Result<()> {
        if let Some(error) = self.broken.lock().unwrap().take() {
            return Err(io::Error::from_raw_os_error(error));
        }
        let mut emmc = self.card.lock().unwrap();
        let card = emmc.card_mut();
        for command in commands {
            self.sent.lock().unwrap().push((command.index, command.arg));
            let data = match &command.transfer {
                Transfer::None => Data::None,
                Transfer::Read(into) => Data::Read(into.len() as u64 / 512),
                Transfer::Write(bytes) => Data::Write(vec![Bytes::copy_from_slice(bytes)]),
            };
            let now = card.ready();
            let out = card.command(
                now,
                Command {
                    index: command.index,
                    arg: command.arg,
                    data,
                },
            );
            if let Response::R1(bits) = out.response {
                command.status = self.answer(command.index, bits);
            }
            if command.kernel_waits {
                self.kernel_waits();
            }
            if let Transfer::Read(into) = &mut command.transfer {
                let read: Vec<u8> = out.data.concat();
                into[..read.len()].copy_from_slice(&read);
                if command.index == 8 {
                    let other = self.register.lock().unwrap();
                    other.iter().for_each(|(at, value)| into[*at] = *value);
                }
            }
        }
        Ok(())
    }
}

fn content(seed: u64, sectors: usize) -> Bytes {
    let mut bytes = vec![0; sectors * 512];
    Rng::named(seed, "card").fill(&mut bytes);
    bytes.into()
}

fn ok(device: &CardDevice, request: Request) -> Bytes {
    device.wait(device.submit(request)).unwrap().into_bytes()
}

fn entry(lba: u64, bytes: &Bytes) -> PackedWrite {
    PackedWrite {
        lba: Lba(lba),
        pieces: vec![Piece {
            class: Class::Data,
            bytes: bytes.clone(),
        }],
        fua: true,
    }
}

/// CMD6 that writes a byte.
const FLUSH: (u8, u32) = (6, 3 << 24 | (field::FLUSH_CACHE as u32) << 16 | 1 << 8 | 1);

#[test]
fn requests_become_the_commands_of_the_standard() {
    let port = Simulated::new("");
    let device = port.device();
    let caps = device.caps();
    assert!(caps.volatile_cache && caps.fua && caps.packed.is_some() && caps.no_collateral);
    let bytes = content(1, 8);
    ok(&device, Request::write(Lba(64), Class::Data, bytes.clone()));
    // A card of 16 MiB counts addresses in bytes.
    assert_eq!(port.sent(), [(23, 8), (25, 64 * 512)]);
    ok(
        &device,
        Request::write_fua(Lba(128), Class::Data, bytes.clone()),
    );
    assert_eq!(port.sent(), [(23, 1 << 31 | 8), (25, 128 * 512)]);
    ok(&device, Request::flush());
    assert_eq!(port.sent(), [FLUSH]);
    assert_eq!(ok(&device, Request::read(Lba(64), 8)), bytes);
    assert_eq!(port.sent(), [(23, 8), (18, 64 * 512)]);
    let other = content(2, 16);
    ok(
        &device,
        Request::pack(vec![
            entry(512, &bytes),
            entry(1024, &other),
            entry(2048, &bytes),
        ]),
    );
    // 8 + 16 + 8 sectors and the header; then the register.
    let sent = [(23, 1 << 30 | 33), (25, 512 * 512), (8, 0)];
    assert_eq!(port.sent(), sent);
    for (lba, wanted) in [(512, &bytes), (1024, &other), (2048, &bytes)] {
        assert_eq!(
            &ok(&device, Request::read(Lba(lba), wanted.len() as u64 / 512)),
            wanted
        );
    }
}

#[test]
fn what_is_reliable_or_flushed_survives_a_cut_and_the_cache_does_not() {
    use blockdev::Model;
    let port = Simulated::new("");
    let device = port.device();
    let (cached, reliable, packed) = (content(1, 8), content(2, 8), content(3, 8));
    ok(
        &device,
        Request::write(Lba(800), Class::Data, content(4, 8)),
    );
    ok(&device, Request::flush());
    ok(&device, Request::write(Lba(64), Class::Data, cached));
    ok(
        &device,
        Request::write_fua(Lba(128), Class::Data, reliable.clone()),
    );
    ok(
        &device,
        Request::pack(vec![
            entry(256, &packed),
            entry(264, &packed),
            entry(272, &packed),
        ]),
    );
    let mut emmc = port.card.lock().unwrap().clone();
    let at = emmc.card_mut().ready();
    let media = varve_ctrl::Media::Emmc(emmc.power_off(at, 1));
    let mut after = crate::host::emmc(&emmc_profile(""), Some(media));
    let mut read = |lba| {
        after
            .execute(Time(u64::MAX / 4), Request::read(Lba(lba), 8))
            .result
            .unwrap()
            .into_bytes()
    };
    assert_eq!(
        (read(128), read(256), read(272)),
        (reliable, packed.clone(), packed)
    );
    assert_eq!(read(800), content(4, 8));
    assert!(read(64).iter().all(|b| *b == 0), "it was in the cache only");
}

#[test]
fn the_largest_pack_fits_one_command_of_the_kernel_with_its_header() {
    let port = Simulated::new("");
    let device = port.device();
    let most = device.caps().max_transfer_sectors;
    let long = content(5, most as usize / 2);
    ok(
        &device,
        Request::pack(vec![entry(0, &long), entry(2048, &long)]),
    );
    let sent = port.sent();
    let blocks = sent[0].1 & 0xFFFF;
    assert!(sent[0].1 & 1 << 30 != 0 && u64::from(blocks) == most + 1);
    // MMC_IOC_MAX_BYTES.
    assert!(blocks * 512 <= 512 << 10, "{blocks}");
    let more = Request::pack(vec![entry(0, &long), entry(2048, &content(6, 512))]);
    assert!(device.wait(device.submit(more)).is_err());
}

#[test]
fn cards_without_reliable_writes_of_any_length_get_single_ones() {
    let port = Simulated::new(",card.en_rel_wr=false,card.rel_wr_sec_c=8");
    let device = port.device();
    assert!(device.caps().packed.is_none());
    let bytes = content(6, 10);
    ok(
        &device,
        Request::write_fua(Lba(63), Class::Data, bytes.clone()),
    );
    // Sector 63 alone, eight aligned ones, the last alone.
    let lengths: Vec<u32> = port
        .sent()
        .iter()
        .filter(|c| c.0 == 23)
        .map(|c| c.1 & 0xFFFF)
        .collect();
    assert_eq!(lengths, [1, 8, 1]);
    assert_eq!(ok(&device, Request::read(Lba(63), 10)), bytes);
}

#[test]
fn a_card_without_a_cache_gets_no_flush() {
    let port = Simulated::new(",card.cache_on=false");
    let device = port.device();
    assert!(!device.caps().volatile_cache);
    ok(&device, Request::flush());
    assert_eq!(port.sent(), []);
}

#[test]
fn errors_of_the_host_and_of_the_card_are_told() {
    let port = Simulated::new("");
    let device = port.device();
    *port.broken.lock().unwrap() = Some(1);
    let error = device
        .wait(device.submit(Request::read(Lba(8), 8)))
        .unwrap_err();
    assert!(
        error.to_string().contains("sector 8")
            && error.to_string().contains("Operation not permitted"),
        "{error}"
    );
    // An address that CMD23 and CMD25 accept and the card does not: the status tells it.
    let beyond = device.caps().sectors;
    let mut commands = [CardCommand {
        index: 17,
        arg: (beyond * 512) as u32,
        transfer: Transfer::Read(vec![0; 512]),
        kernel_waits: false,
        status: 0,
    }];
    port.send(&mut commands).unwrap();
    assert!(
        commands[0].status & 1 << 31 != 0,
        "{:#010x}",
        commands[0].status
    );
    let refused = device
        .wait(device.submit(Request::discard(Lba(0), 8)))
        .unwrap_err();
    assert!(refused.to_string().contains("discard"), "{refused}");
}

#[test]
fn an_error_in_any_status_and_a_failed_pack_are_errors_of_the_request() {
    const ERROR: u32 = 1 << 19;
    let port = Simulated::new("");
    let device = port.device();
    let bytes = content(7, 8);
    let write = || Request::write(Lba(16), Class::Data, bytes.clone());
    for index in [23, 25, 13] {
        *port.fault.lock().unwrap() = Some((index, ERROR));
        let error = device.wait(device.submit(write())).unwrap_err().to_string();
        assert!(error.contains(&format!("CMD{index}")), "{error}");
    }
    ok(&device, write());
    // The second entry failed: bits 0 and 1 of byte 36, its number in byte 35. No event tells it.
    *port.register.lock().unwrap() = vec![(36, 3), (35, 2)];
    let pack = Request::pack(vec![entry(64, &bytes), entry(72, &bytes)]);
    let error = device.wait(device.submit(pack)).unwrap_err().to_string();
    assert!(error.contains("entry 2"), "{error}");
    // That of a former pack.
    ok(&device, write());
}

#[test]
fn what_fails_while_the_card_is_busy_is_an_error_of_the_request() {
    const ERROR: u32 = 1 << 19;
    let port = Simulated::new("");
    let device = port.device();
    let bytes = content(7, 8);
    let entries = vec![entry(64, &bytes), entry(72, &bytes)];
    for (index, request) in [
        (6, Request::flush()),
        (25, Request::write(Lba(16), Class::Data, bytes)),
        (25, Request::pack(entries)),
    ] {
        *port.late.lock().unwrap() = Some((index, ERROR));
        let error = device.wait(device.submit(request)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("CMD13"), "{error}");
    }
}

/// A card that is busy does not give its register.
#[test]
fn the_register_is_read_when_the_card_is_ready_and_behind_packs_only() {
    const EXCEPTION: u32 = 1 << 6;
    let port = Simulated::new("");
    let device = port.device();
    let bytes = content(7, 8);
    let commands = |request: Request| {
        *port.busy_behind.lock().unwrap() = Some((25, 3));
        *port.fault.lock().unwrap() = Some((13, EXCEPTION));
        ok(&device, request);
        port.sent().iter().map(|c| c.0).collect::<Vec<u8>>()
    };
    let write = Request::write(Lba(16), Class::Data, bytes.clone());
    assert_eq!(commands(write), [23, 25]);
    let pack = Request::pack(vec![entry(64, &bytes), entry(72, &bytes)]);
    assert_eq!(commands(pack), [23, 25, 8]);
}

/// There the kernel has to wait before it turns the queue on again.
#[test]
fn the_kernel_waits_where_the_card_can_queue_commands() {
    let port = Simulated::new("");
    port.register.lock().unwrap().push((308, 1));
    let device = port.device();
    *port.busy_behind.lock().unwrap() = Some((6, 3));
    ok(&device, Request::flush());
    let sent = port.sent.lock().unwrap();
    let questions = sent.iter().filter(|c| c.0 == 13).count();
    assert_eq!(questions, 1, "it is ready when the kernel has waited");
}

#[test]
fn a_card_without_reliable_writes_promises_none() {
    for bytes in [&[(222, 0)][..], &[(222, 8), (61, 1)]] {
        let port = Simulated::new(",card.en_rel_wr=false");
        port.register.lock().unwrap().extend(bytes);
        let device = port.device();
        let caps = device.caps();
        assert!(!caps.fua && caps.reliable_granule.is_none(), "{bytes:?}");
        let write = Request::write_fua(Lba(64), Class::Data, content(1, 8));
        let refused = device.wait(device.submit(write)).unwrap_err();
        assert!(
            refused.to_string().contains("no reliable writes"),
            "{refused}"
        );
    }
}

#[test]
fn a_request_ends_when_the_card_is_ready_again() {
    let port = Simulated::new("");
    let device = port.device();
    *port.busy_behind.lock().unwrap() = Some((6, 3));
    ok(&device, Request::flush());
    assert_eq!(*port.busy.lock().unwrap(), 0);
    let questions = port
        .sent
        .lock()
        .unwrap()
        .iter()
        .filter(|c| c.0 == 13)
        .count();
    assert_eq!(questions, 4);
}
