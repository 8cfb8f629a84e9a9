//! The block layer: requests, plugs, merging, ordering, queue.
