//! The guards of the controllers, each left out once: a test must notice that. Run by
//! `cargo xtask mutants`.

use base::{Bytes, Lba, Mutant, Rng, Time};
use blockdev::{Class, Model, Request};
use varve_ctrl::{AnyModel, Profile};

/// The number of blocks whose content is not what the host wrote, after `writes` writes of mostly
/// repeated content with a hash of six bits; and how often the guard was reached.
fn wrong(mutant: Option<Mutant>, writes: u64) -> (u64, u64) {
    let profile = Profile::parse("nandsim-2007,transparent=true").unwrap();
    let AnyModel::Raw(mut raw) = profile.build(Some(4 << 20), None).unwrap() else {
        panic!("not raw flash");
    };
    raw.shorten_hash(6);
    raw.ftl_mut().set_mutant(mutant);
    let mut rng = Rng::named(1, "mutants");
    let mut view: Vec<Bytes> = vec![vec![0; 4096].into(); 512];
    let mut now = Time(0);
    for n in 0..writes {
        let at = rng.below(512);
        let mut bytes = vec![0; 4096];
        Rng::named(n / 2, "content").fill(&mut bytes);
        view[at as usize] = bytes.clone().into();
        let done = raw.execute(now, Request::write(Lba(at * 8), Class::Data, bytes.into()));
        done.result.unwrap();
        now = done.at;
    }
    let reached = raw.ftl_mut().mutant_reached(Mutant::ShareByHash);
    let device = AnyModel::Raw(raw);
    let wrong = (0..512).filter(|n| device.visible(*n) != view[*n as usize]);
    (wrong.count() as u64, reached)
}

#[test]
fn share_by_hash() {
    const WRITES: u64 = 400;
    let (clean, _) = wrong(None, WRITES);
    assert_eq!(clean, 0, "the unmutated device");
    let (found, reached) = wrong(Some(Mutant::ShareByHash), WRITES);
    assert!(
        found > 0 && reached > 0,
        "hazards-R21 survives: reached {reached} times"
    );
    println!(
        "mutant|share-by-hash|nandsim-2007,transparent=true, a hash of 6 bits|{reached}|final content is the host's view|1|1"
    );
}
