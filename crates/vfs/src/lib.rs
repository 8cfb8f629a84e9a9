//! Path walk, descriptors, page-cache policy and an in-memory model file system.
