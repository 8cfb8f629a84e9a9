//! From the innermost frame of a thread outwards.
//!
//! The host does not tell the base pointer. Functions that find their frame by it are met with it
//! unknown until one frame further in has kept it. Then the frame's end is looked for on the stack:
//! it is where the address of return lies behind an instruction that calls just this function.

use super::memory::{Memory, Process, Registers};
use super::module::{Cfa, Rule};
use super::{FRAMES_MAX, Frame, Stacks};

/// How far above the stack pointer the end of a frame is looked for, bytes.
const SEARCHED: u64 = 256 << 10;
/// Bytes of the longest instruction that calls.
const CALL_BYTES: u64 = 7;

/// The frames of a thread, innermost first. No lock is held while the thread is read (stack-T2).
pub fn walk(
    process: &mut Process,
    stacks: &Stacks,
    thread: u32,
    registers: Registers,
) -> Vec<Frame> {
    let mut frames = Vec::new();
    let Some(memory) = Memory::of(thread, registers.stack) else {
        return frames;
    };
    let (mut stack, mut at) = (registers.stack, registers.instruction);
    let mut base = None;
    while frames.len() < FRAMES_MAX {
        // The call lies in front of the instruction that it returns to, which may be the first one
        // of another line, or of another function.
        let call = at.wrapping_sub(1);
        if process.refresh(thread, call).is_none() {
            break;
        }
        let Some(map) = process.mapping(call) else {
            break;
        };
        let Some((placed, rule)) = stacks.modules.lock().frame(map, call) else {
            break;
        };
        frames.push(placed);
        let Some(rule) = rule else {
            break;
        };
        let function = call
            .wrapping_sub(placed.address)
            .wrapping_add(rule.function);
        let frame = Unwound {
            process,
            mount: stacks.mount,
            memory: &memory,
            stack,
            base,
            function,
        };
        let Some((above, next)) = frame.above(&rule) else {
            break;
        };
        if let Some(kept) = rule.base {
            base = memory.word(above.wrapping_add_signed(kept));
        }
        // A stack grows outwards; what does not is damaged.
        if above <= stack || next == 0 {
            break;
        }
        (stack, at) = (above, next);
    }
    frames
}

/// What is known in a frame.
struct Unwound<'a> {
    process: &'a Process,
    mount: u64,
    memory: &'a Memory,
    stack: u64,
    base: Option<u64>,
    /// First instruction of the function, in the process.
    function: u64,
}

impl Unwound<'_> {
    /// The end of the frame, and the address that it returns to.
    fn above(&self, rule: &Rule) -> Option<(u64, u64)> {
        let ret = rule.ret?;
        let cfa = match (rule.cfa, self.base) {
            (Cfa::Stack(offset), _) => self.stack.checked_add_signed(offset)?,
            (Cfa::Base(offset), Some(base)) => base.checked_add_signed(offset)?,
            (Cfa::Base(_), None) => self.found(ret)?,
        };
        Some((cfa, self.memory.word(cfa.checked_add_signed(ret)?)?))
    }

    /// The end of a frame whose base pointer is not known: the first one that a call of this very
    /// function has made; without one, the first that a call by a pointer has made.
    fn found(&self, ret: i64) -> Option<u64> {
        let ends = (1..SEARCHED / 8).map(|n| self.stack + 8 * n);
        let mut by_pointer = None;
        for end in ends {
            let Some(next) = self.memory.word(end.checked_add_signed(ret)?) else {
                // The stack has ended.
                break;
            };
            match self.called(next) {
                Called::This => return Some(end),
                Called::Unknown if by_pointer.is_none() => by_pointer = Some(end),
                Called::Unknown | Called::Other => {}
            }
        }
        by_pointer
    }

    /// Whether an address lies in code that may be read: pages of a file on the mount may not be in
    /// memory, and then the mount has to bring them (stack-T2).
    fn is_readable(&self, address: u64) -> bool {
        let map = self.process.mapping(address);
        map.is_some_and(|map| map.device != self.mount)
    }

    /// What the instruction in front of an address calls.
    fn called(&self, next: u64) -> Called {
        if !self.is_readable(next.wrapping_sub(1)) {
            return Called::Other;
        }
        let mut code = [0; CALL_BYTES as usize];
        let read = self.memory.read(next.wrapping_sub(CALL_BYTES), &mut code);
        if read.is_none() {
            return Called::Other;
        }
        let relative = |at: usize| {
            let bytes = [code[at], code[at + 1], code[at + 2], code[at + 3]];
            next.wrapping_add_signed(i32::from_le_bytes(bytes).into())
        };
        let is = |this: bool| if this { Called::This } else { Called::Other };
        match code {
            // call TARGET
            [_, _, 0xe8, ..] => {
                let target = relative(3);
                is(target == self.function || self.stub(target) == Some(self.function))
            }
            // call [SLOT], with the target in a table of the program
            [_, 0xff, 0x15, ..] => is(self.memory.word(relative(3)) == Some(self.function)),
            // call REGISTER, call [REGISTER], with a distance of no, one or four bytes
            _ if by_register(&code) => Called::Unknown,
            _ => Called::Other,
        }
    }

    /// Where a stub of the linker leads: an `endbr64` or nothing, then `jmp [SLOT]`.
    fn stub(&self, target: u64) -> Option<u64> {
        if !self.is_readable(target) {
            return None;
        }
        let mut code = [0; 11];
        self.memory.read(target, &mut code)?;
        let jump = code.windows(2).position(|two| two == [0xff, 0x25])?;
        let slot: [u8; 4] = code.get(jump + 2..jump + 6)?.try_into().ok()?;
        let behind = target.wrapping_add(jump as u64 + 6);
        self.memory
            .word(behind.wrapping_add_signed(i32::from_le_bytes(slot).into()))
    }
}

/// What an instruction calls.
enum Called {
    /// The function that is looked for.
    This,
    /// Whatever a register says.
    Unknown,
    /// Something else, or it is no call.
    Other,
}

/// Whether the last instruction of `code` is a call by a register: `ff /2`, of two to seven bytes.
fn by_register(code: &[u8; CALL_BYTES as usize]) -> bool {
    let call = |len: usize| {
        let at = code.len() - len;
        let (opcode, modes) = (code[at], code[at + 1]);
        let (mode, register) = (modes >> 6, modes & 7);
        let index = usize::from(mode != 3 && register == 4);
        let distance = match mode {
            1 => 1,
            2 => 4,
            _ => 0,
        };
        opcode == 0xff && modes >> 3 & 7 == 2 && len == 2 + index + distance
    };
    (2..=7).any(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_by_a_register_are_told_from_other_bytes() {
        let of = |code: &[u8]| {
            let mut whole = [0x90; 7];
            whole[7 - code.len()..].copy_from_slice(code);
            by_register(&whole)
        };
        assert!(of(&[0xff, 0xd0]), "call rax");
        assert!(of(&[0xff, 0x10]), "call [rax]");
        assert!(of(&[0xff, 0x50, 0x28]), "call [rax+0x28]");
        assert!(of(&[0xff, 0x54, 0x24, 0x28]), "call [rsp+0x28]");
        assert!(of(&[0xff, 0x90, 0, 1, 0, 0]), "call [rax+0x100]");
        assert!(!of(&[0xff, 0xe0]), "jmp rax");
        assert!(!of(&[0xff, 0x50]), "a distance is missing");
        assert!(!of(&[0x90, 0xd0]), "no call");
    }
}
