//! The NAND medium: geometry, timing, program and erase rules, power loss.
