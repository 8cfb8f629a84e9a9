//! Where requests are sent: a device behind the blocking seam, or a model in virtual time.

use base::{Nanos, Time};
use blockdev::{Adversary, BlockDevice, Caps, DevError, Model, Request};
use ctrl::AnyModel;
use std::collections::VecDeque;

/// Something that carries out requests and knows how long it took.
pub trait Bench {
    /// The promises of the device.
    fn caps(&self) -> Caps;
    /// Carries out the requests in their order with at most `depth` under way, and answers with the
    /// time from the first one's submission to the last completion. When so many are under way, the
    /// next one is submitted when the oldest has ended, as by a ring that is emptied in order: a
    /// device and a model that do the same are to show the same.
    ///
    /// # Errors
    /// The device's error for the first request that failed.
    fn run(&mut self, requests: Vec<Request>, depth: usize) -> Result<Nanos, DevError>;
}

/// A device that takes its time by the clock of `rt`: a file or block device of the host, or in a
/// simulation any other.
pub struct Real<'a>(pub &'a dyn BlockDevice);

impl Bench for Real<'_> {
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn run(&mut self, requests: Vec<Request>, depth: usize) -> Result<Nanos, DevError> {
        let mut under_way = VecDeque::with_capacity(depth);
        let mut failed = None;
        let begin = rt::now();
        for request in requests {
            if under_way.len() >= depth
                && let Some(ticket) = under_way.pop_front()
                && let Err(e) = self.0.wait(ticket)
            {
                failed = Some(e);
                break;
            }
            under_way.push_back(self.0.submit(request));
        }
        // Each ticket is waited for, because the buffer of a request belongs to the kernel until
        // then.
        for ticket in under_way {
            failed = self.0.wait(ticket).err().or(failed);
        }
        let took = rt::now() - begin;
        failed.map_or(Ok(took), Err)
    }
}

/// A model with a clock of its own, which jumps from completion to completion.
pub struct Virtual {
    model: AnyModel,
    now: Time,
}

impl Virtual {
    /// Puts a model on the bench. What a power cut would leave of it is not kept.
    pub fn new(mut model: AnyModel) -> Virtual {
        model.set_adversary(Adversary::Own);
        Virtual {
            model,
            now: Time(0),
        }
    }
}

impl Bench for Virtual {
    fn caps(&self) -> Caps {
        self.model.caps().clone()
    }
    fn run(&mut self, requests: Vec<Request>, depth: usize) -> Result<Nanos, DevError> {
        let (begin, mut end) = (self.now, self.now);
        let mut under_way = VecDeque::with_capacity(depth);
        for request in requests {
            if under_way.len() >= depth
                && let Some(at) = under_way.pop_front()
            {
                self.now = self.now.max(at);
            }
            let done = self.model.execute(self.now, request);
            done.result?;
            under_way.push_back(done.at);
            end = end.max(done.at);
        }
        self.now = end;
        Ok(end - begin)
    }
}
