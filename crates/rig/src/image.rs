//! Copies the content of device models to image files of the host, and back.

use crate::{Config, RigError};
use base::{BLOCK_BYTES, Lba, SECTOR_BYTES};
use blockdev::Model;
use ctrl::AnyModel;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read or written with one call of the host.
const RUN_BYTES: usize = 1 << 20;

/// Writes the logical content of `model` as a sparse image file.
///
/// # Errors
/// What the host says, e.g. that its disk is full.
pub fn write_image(model: &AnyModel, path: &Path) -> Result<(), RigError> {
    let fail = |source| RigError::Image {
        path: path.display().to_string(),
        source,
    };
    let file = File::create(path).map_err(fail)?;
    file.set_len(model.caps().sectors * SECTOR_BYTES as u64)
        .map_err(fail)?;
    let mut outcome = Ok(());
    // Neighbours go with one write.
    let (mut start, mut run) = (0, Vec::with_capacity(RUN_BYTES));
    model.dump_logical(|lba, bytes| {
        if outcome.is_err() {
            return;
        }
        let at = lba.0 * SECTOR_BYTES as u64;
        if at != start + run.len() as u64 || run.len() >= RUN_BYTES {
            outcome = file.write_all_at(&run, start);
            run.clear();
        }
        if run.is_empty() {
            start = at;
        }
        run.extend_from_slice(bytes);
    });
    outcome
        .and_then(|()| file.write_all_at(&run, start))
        .map_err(fail)
}

/// Copies an image file to a blank device of the same size, built as `config` describes, except for
/// the size in it.
///
/// # Errors
/// The file cannot be read, or its size is not a positive multiple of 4 KiB.
pub fn load_image(path: &Path, config: &Config) -> Result<AnyModel, RigError> {
    let name = || path.display().to_string();
    let fail = |source: io::Error| RigError::Image {
        path: name(),
        source,
    };
    let file = File::open(path).map_err(fail)?;
    let bytes = file.metadata().map_err(fail)?.len();
    if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES as u64) {
        let what = format!("its {bytes} bytes are not a positive multiple of {BLOCK_BYTES}");
        return Err(RigError::ImageSize { path: name(), what });
    }
    let mut model = Config {
        bytes,
        ..config.clone()
    }
    .blank()?;
    let mut file = BufReader::with_capacity(RUN_BYTES, file);
    let mut block = vec![0; BLOCK_BYTES];
    for n in 0..bytes / BLOCK_BYTES as u64 {
        file.read_exact(&mut block).map_err(fail)?;
        if !base::bytes::is_zero(&block) {
            let lba = Lba(n * (BLOCK_BYTES / SECTOR_BYTES) as u64);
            model.load_logical(lba, block.clone().into())?;
        }
    }
    Ok(model)
}
