//! What a file of the format ELF (64 bits, little-endian) says of itself.

/// A program for a loader of shared libraries (PT_INTERP).
const INTERPRETER: u64 = 3;
/// A table of symbols, which a debugger reads (SHT_SYMTAB).
const SYMBOLS: u64 = 2;

/// The bytes of a file.
pub struct Elf<'a>(pub &'a [u8]);

impl Elf<'_> {
    /// Whether it names a loader, which would look for libraries.
    pub fn needs_loader(&self) -> bool {
        let (table, entry, count) = (0x20, 0x36, 0x38);
        self.any(table, entry, count, |at| self.number(at, 4) == INTERPRETER)
    }

    /// Whether it still has what `strip` takes away.
    pub fn has_symbols(&self) -> bool {
        let (table, entry, count) = (0x28, 0x3a, 0x3c);
        self.any(table, entry, count, |at| self.number(at + 4, 4) == SYMBOLS)
    }

    /// Whether an entry of a table fits: where the header says where the table lies, how long an
    /// entry is, and how many there are.
    fn any(&self, table: usize, entry: usize, count: usize, fits: impl Fn(usize) -> bool) -> bool {
        let (table, entry) = (self.number(table, 8), self.number(entry, 2));
        (0..self.number(count, 2)).any(|n| fits((table + n * entry) as usize))
    }

    fn number(&self, at: usize, bytes: usize) -> u64 {
        let found = self.0.get(at..at + bytes).unwrap_or_default();
        found.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_loader_and_symbols_is_told_from_one_without() {
        // This test is a program with both.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(Elf(&own).needs_loader() && Elf(&own).has_symbols());
        let mut without = own.clone();
        // No entry in the table of parts.
        without[0x38..0x3a].fill(0);
        assert!(!Elf(&without).needs_loader() && Elf(&without).has_symbols());
        // None in that of sections.
        without[0x3c..0x3e].fill(0);
        assert!(!Elf(&without).has_symbols());
        let short = Elf(b"too short");
        assert!(!short.needs_loader() && !short.has_symbols());
    }
}
