//! A queue that answers reads as if a planned change of the device had been carried out already.
//!
//! - A1 reads are those of the queue below, with the blocks of a [`Plan`] laid over them;
//! - A2 everything but a read is refused, because it is not yet decided that the plan will be
//!   carried out.

use crate::Queue;
use base::{BlockNo, BlockSize, Bytes, Lba, SECTOR_BYTES};
use blockdev::{BlockDevice, Caps, DevError, Op, Reply, Request, Ticket};
use rt::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A planned change of a device: the blocks that will be written.
pub trait Plan: Send + Sync {
    /// The content that a block, counted in blocks of the plan, will have; `None`: the plan does
    /// not change it.
    ///
    /// # Errors
    /// It cannot be read.
    fn content(&self, block: BlockNo) -> Result<Option<Bytes>, DevError>;
}

/// The device below a queue that looks ahead.
struct Ahead {
    below: Arc<Queue>,
    size: BlockSize,
    plan: Arc<dyn Plan>,
    done: Mutex<Done>,
}

/// Answers by ticket.
#[derive(Default)]
struct Done {
    next: u64,
    answers: BTreeMap<u64, Result<Reply, DevError>>,
}

impl Queue {
    /// A queue over what `below` will hold when `plan`, in blocks of `size`, is carried out. It
    /// only reads.
    pub fn ahead(below: Arc<Queue>, size: BlockSize, plan: Arc<dyn Plan>) -> Arc<Queue> {
        Queue::new(Arc::new(Ahead {
            below,
            size,
            plan,
            done: Mutex::named("look ahead", Done::default()),
        }))
    }
}

impl Ahead {
    fn read(&self, lba: Lba, sectors: u64) -> Result<Bytes, DevError> {
        let below = self.below.read(lba, sectors)?;
        let per_block = self.size.sectors();
        let (first, end) = (lba.0, lba.0 + sectors);
        let mut laid: Option<Vec<u8>> = None;
        for block in first / per_block..end.div_ceil(per_block) {
            let Some(content) = self.plan.content(BlockNo(block))? else {
                continue;
            };
            let home = block * per_block;
            let (from, to) = (home.max(first), (home + per_block).min(end));
            let bytes = |from: u64, to: u64, start: u64| {
                (from - start) as usize * SECTOR_BYTES..(to - start) as usize * SECTOR_BYTES
            };
            laid.get_or_insert_with(|| below.to_vec())[bytes(from, to, first)]
                .copy_from_slice(&content[bytes(from, to, home)]);
        }
        Ok(laid.map_or(below, Bytes::from))
    }
}

impl BlockDevice for Ahead {
    fn caps(&self) -> Caps {
        self.below.caps().clone()
    }

    fn submit(&self, request: Request) -> Ticket {
        let answer = match request.op {
            Op::Read { lba, sectors } => self.read(lba, sectors).map(|bytes| Reply {
                data: vec![bytes],
                ..Reply::default()
            }),
            _ => {
                let why = "A2: a look ahead changes nothing";
                Err(DevError::misuse(None, why))
            }
        };
        let mut done = self.done.lock();
        let ticket = done.next;
        done.next += 1;
        done.answers.insert(ticket, answer);
        Ticket(ticket)
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let answer = self.done.lock().answers.remove(&ticket.0);
        answer.unwrap_or_else(|| {
            let why = format!("{ticket:?} was never submitted, or was waited for before");
            Err(DevError::misuse(None, why))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockdev::{Class, Ram};

    /// Block 3 of 1 KiB will hold ones.
    struct Ones;

    impl Plan for Ones {
        fn content(&self, block: BlockNo) -> Result<Option<Bytes>, DevError> {
            Ok((block == BlockNo(3)).then(|| vec![1; 1024].into()))
        }
    }

    fn ahead() -> (Arc<Queue>, Arc<Queue>) {
        let below = Queue::new(Arc::new(Ram::new(1 << 20)));
        let content = vec![7; 8192].into();
        below.write(Lba(0), Class::Data, content).expect("in range");
        let size = BlockSize::new(1024).expect("a size");
        let ahead = Queue::ahead(below.clone(), size, Arc::new(Ones));
        (below, ahead)
    }

    /// A1: what reads show.
    #[test]
    fn a1_what_is_planned_lies_over_what_is_there() {
        let (_, ahead) = ahead();
        for (lba, sectors) in [(0, 16), (5, 1), (6, 1), (7, 1), (8, 1), (7, 2), (6, 2)] {
            let wanted: Vec<u8> = (lba..lba + sectors)
                .flat_map(|n| [if n == 6 || n == 7 { 1 } else { 7 }; 512])
                .collect();
            assert_eq!(ahead.read(Lba(lba), sectors).expect("reads"), wanted);
        }
    }

    #[test]
    fn a2_nothing_is_written() {
        let (below, ahead) = ahead();
        let write = ahead.write(Lba(0), Class::Data, vec![9; 4096].into());
        assert!(write.expect_err("refused").to_string().contains("A2"));
        assert_eq!(below.read(Lba(0), 1).expect("reads")[0], 7);
    }
}
