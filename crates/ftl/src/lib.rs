//! Flash translation layer: page map, garbage collection, TRIM, a map that survives a power cycle.
