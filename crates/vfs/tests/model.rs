//! The model file system passes the suite that it is the reference of.

use varve_vfs::conformance;
use varve_vfs::model::ModelFs;

#[test]
fn model_conforms() {
    conformance::run(ModelFs::new);
}
