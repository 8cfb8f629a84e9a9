//! Power cuts on volumes with large blocks. A device writes 4 KiB or a sector at once, so each block
//! may be half old and half new.
