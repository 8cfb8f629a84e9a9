//! Exposes the comparison of blocks to the bench `cost`, and to nothing else.

use super::edit;
use base::cost::f2fs::LOG_COMPARE;
use ondisk::f2fs::{ADDRS_PER_BLOCK, BLOCK_BYTES, BlockAddr, Features, Footer, Nid};
use ondisk::f2fs::{set_addr, set_footer};

/// Changes an address in a node block, `n` times, and finds out which by comparing.
pub fn compares(n: u64) {
    let mut block = vec![0; BLOCK_BYTES];
    let mut footer = Footer {
        nid: Nid(5),
        ino: Nid(4),
        ..Footer::default()
    };
    footer.set_ofs_of_node(1);
    set_footer(&mut block, &footer);
    let mut records = 0;
    for at in 0..n {
        rt::charge(LOG_COMPARE);
        let word = (at % u64::from(ADDRS_PER_BLOCK)) as usize;
        let log = |_: &ondisk::f2fs::journal::Record<'_>| records += 1;
        edit::node(&mut block, Features::NONE, log, |edit| {
            edit.by_comparing(|block| set_addr(block, word, BlockAddr(1000 + at as u32)));
        });
    }
    assert_eq!(records, n, "a record for each change");
}
