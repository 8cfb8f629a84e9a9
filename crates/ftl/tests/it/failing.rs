//! Programs and erases that fail while there is no room to spare: nothing that was accepted is
//! lost, until the device says that it is worn out.

use crate::common;
use base::{Rng, Time};
use common::{CONFIG, GEOMETRY, Oracle, TIMING, fresh, id_of, unit};
use varve_ftl::nand::{BlockId, Geometry, Nand};
use varve_ftl::{Config, Ftl, FtlError};

/// The least chips for 600 units, and `spare` blocks that may fail.
fn tight(spare: u32, lanes: u32) -> (Geometry, Config) {
    let config = Config {
        gc_slack: 0,
        lanes,
        checkpoint_blocks: 9,
        slc: None,
        ..CONFIG
    };
    let mut geometry = Geometry {
        dies_per_channel: 1,
        blocks_per_plane: 1,
        ..GEOMETRY
    };
    while varve_ftl::Layout::new(&config, &geometry).is_err() {
        geometry.blocks_per_plane += 1;
    }
    geometry.blocks_per_plane += spare;
    (geometry, config)
}

/// The device, the newest value of each unit, and what a cut may leave.
struct Life {
    ftl: Ftl,
    newest: Vec<u32>,
    oracle: Oracle,
    now: Time,
}

impl Life {
    fn step(&mut self, rng: &mut Rng, id: u32) -> Result<(), FtlError> {
        let lpn = rng.below(600) as u32;
        self.ftl.advance(self.now);
        match rng.below(16) {
            0 => {
                let end = self.ftl.flush(self.now)?;
                self.oracle.flush(end);
                self.now = end;
            }
            1 => {
                self.ftl.trim(self.now, lpn..lpn + 1)?;
                self.newest[lpn as usize] = 0;
                self.oracle.write(lpn, 0);
            }
            _ => {
                self.ftl.write(self.now, lpn, unit(512, lpn, id))?;
                self.newest[lpn as usize] = id;
                self.oracle.write(lpn, id);
                self.now.0 += rng.below(60_000);
            }
        }
        Ok(())
    }
    fn read_all(&self, what: &str) {
        for (lpn, id) in (0..).zip(&self.newest) {
            let got = self
                .ftl
                .content(lpn)
                .unwrap_or_else(|e| panic!("{what}: {e}, was {id}"));
            assert_eq!(id_of(&got), *id, "{what}: unit {lpn}");
        }
    }
    fn cut(&self, config: Config, what: &str) {
        let media = self.ftl.clone().power_off(self.now, self.now.0);
        let (next, _) = Ftl::mount(Nand::new(media, TIMING), config, Time(0))
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        next.check();
        self.oracle.check(&next, self.now, what);
    }
}

fn run(seed: u64, lanes: u32) -> u32 {
    let mut rng = Rng::named(seed, "failing while tight");
    let (geometry, config) = tight(rng.below(12) as u32, lanes);
    let mut life = Life {
        ftl: fresh(geometry, config),
        newest: vec![0; 600],
        oracle: Oracle::default(),
        now: Time(0),
    };
    let every = 30 + rng.below(600);
    for id in 1..2500 {
        if rng.one_in(every) {
            let block = BlockId(rng.below(u64::from(geometry.blocks())) as u32);
            match rng.one_in(4) {
                true => life.ftl.nand_mut().fail_next_erase(block),
                false => life.ftl.nand_mut().fail_next_program(block),
            }
        }
        let what = format!("seed {seed}, operation {id}");
        if let Err(e) = life.step(&mut rng, id) {
            assert!(matches!(e, FtlError::ReadOnly(_)), "{what}: {e}");
            return id;
        }
        if id % 100 == 0 {
            life.ftl.check();
            life.read_all(&what);
            life.cut(config, &what);
        }
    }
    2500
}

#[test]
fn failing_programs_lose_nothing_while_there_is_no_room_to_spare() {
    let ends: Vec<u32> = (0..60)
        .map(|seed| run(seed, 1 + (seed % 3) as u32))
        .collect();
    let worn = ends.iter().filter(|end| **end < 2500).count();
    assert!((6..54).contains(&worn), "{worn} of 60 wore out");
}
