//! CMD6: switches modes, and starts the operations that are started by writing a mode byte.

use super::{Card, Outcome, State, status};
use crate::emmc::ext_csd::field;
use base::Time;

impl Card {
    pub(super) fn cache_off(&mut self, t: Time) -> Time {
        self.fw.flush(t).unwrap_or_else(|e| {
            self.fail_with(&e);
            t
        })
    }
    /// CMD6: access mode, byte, value.
    pub(super) fn switch(&mut self, t: Time, arg: u32) -> Outcome {
        let (access, index, value) = (arg >> 24 & 3, (arg >> 16 & 0xFF) as usize, (arg >> 8) as u8);
        let mut end = t;
        let old = self.ext_csd.get(index);
        let value = match access {
            1 => old | value,
            2 => old & !value,
            3 => value,
            _ => return self.r1(t),
        };
        if self.ext_csd.switch(index, value).is_none() {
            self.fail(
                status::SWITCH_ERROR,
                "this EXT_CSD byte takes no such value",
            );
        } else {
            end = self.carry_out(t, index, old, value);
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
    /// Does what writing this mode byte asks for; answers when that is over.
    fn carry_out(&mut self, t: Time, index: usize, old: u8, value: u8) -> Time {
        match index {
            field::CACHE_CTRL if old & 1 != 0 && value & 1 == 0 => self.cache_off(t),
            field::FLUSH_CACHE if value & 1 != 0 && self.ext_csd.cache_on() => self.cache_off(t),
            field::FLUSH_CACHE if value & 2 != 0 => self.fw.barrier(t),
            field::BKOPS_EN => {
                self.fw.set_auto_bkops(value & 2 != 0);
                t
            }
            field::BKOPS_START => self.fw.bkops(t).unwrap_or_else(|e| {
                self.fail_with(&e);
                t
            }),
            _ => t,
        }
    }
    /// CMD5: to sleep out of stand-by, and back. The cache keeps its supply and its content, but a
    /// power cut loses it as in any state.
    pub(super) fn sleep_awake(&mut self, t: Time, arg: u32) -> Outcome {
        let next = match (self.state, arg >> 15 & 1) {
            (State::Standby, 1) => State::Sleep,
            (State::Sleep, 0) => State::Standby,
            _ => return self.illegal(t),
        };
        let out = self.r1(t);
        self.state = next;
        out
    }
    /// Updates the fields of EXT_CSD that describe the current state.
    pub(super) fn refresh(&mut self) {
        if self.ext_csd.get(field::BKOPS_SUPPORT) != 0 {
            self.ext_csd.set_bkops_status(self.fw.bkops_need());
        }
    }
}
