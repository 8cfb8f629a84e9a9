//! Device controllers over an FTL: eMMC.
