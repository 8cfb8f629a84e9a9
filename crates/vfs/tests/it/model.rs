//! The model file system passes the suite that it is the reference of, in both worlds.

use rt::{Sim, SimConfig};
use testkit::conformance;
use testkit::model::ModelFs;

#[test]
fn model_conforms_in_the_real_world() {
    conformance::run(ModelFs::new);
}

#[test]
fn model_conforms_in_a_simulation() {
    Sim::new(SimConfig::default())
        .run(|| conformance::run(ModelFs::new))
        .unwrap();
}
