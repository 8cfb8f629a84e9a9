//! CMD6: modes, and commands in the guise of modes.

use super::{Card, Outcome, State, status};
use crate::emmc::ext_csd::field;
use base::Time;

impl Card {
    pub(super) fn cache_off(&mut self, t: Time) -> Time {
        if !self.ext_csd.cache_on() {
            return t;
        }
        self.fw.flush(t).unwrap_or_else(|e| {
            self.fail_with(&e);
            t
        })
    }
    /// CMD6: access mode, byte, value.
    pub(super) fn switch(&mut self, t: Time, arg: u32) -> Outcome {
        let (access, index, value) = (arg >> 24 & 3, (arg >> 16 & 0xFF) as usize, (arg >> 8) as u8);
        let old = self.ext_csd.get(index);
        let value = match access {
            1 => old | value,
            2 => old & !value,
            3 => value,
            _ => return self.r1(t),
        };
        let mut end = t;
        let turns_off = index == field::CACHE_CTRL && value & 1 == 0;
        let barrier = index == field::FLUSH_CACHE && value & 2 != 0;
        if turns_off || index == field::FLUSH_CACHE && value & 1 != 0 {
            end = self.cache_off(t);
        }
        if barrier || self.ext_csd.switch(index, value).is_none() {
            self.fail(
                status::SWITCH_ERROR,
                "this EXT_CSD byte takes no such value",
            );
        }
        // R1b: the host polls CMD13 until busy is over and finds the errors there.
        let out = self.r1(end);
        self.state = if end > t {
            State::Programming
        } else {
            State::Transfer
        };
        out
    }
}
