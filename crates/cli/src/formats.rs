//! Runs in formats that programs of others read: fio's JSON, and logs of HdrHistogram.

use crate::args::RunArgs;
use crate::failure::{Failure, failed};
use crate::worker::Done;
use report::samples::Samples;
use report::{fio, hdr};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What was asked for.
pub struct Formats {
    fio: Option<PathBuf>,
    hdr: Option<(PathBuf, File)>,
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |e| failed(format!("{}: {e}", path.display()))
}

impl Formats {
    /// Whether single operations have to be noted.
    pub fn wanted(args: &RunArgs) -> bool {
        args.fio_json.is_some() || args.hdr_log.is_some()
    }

    /// Makes folder and file, so that what cannot be written is said before anything runs.
    ///
    /// # Errors
    /// The host refuses.
    pub fn begin(args: &RunArgs) -> Result<Formats, Failure> {
        if let Some(folder) = &args.fio_json {
            fs::create_dir_all(folder).map_err(at(folder))?;
        }
        let open = |path: &PathBuf| Ok((path.clone(), File::create(path).map_err(at(path))?));
        Ok(Formats {
            fio: args.fio_json.clone(),
            hdr: args.hdr_log.as_ref().map(open).transpose()?,
        })
    }

    /// Writes the runs; `reproduce` is the command line that makes them again.
    ///
    /// # Errors
    /// The host refuses.
    pub fn write(self, done: &[Done], reproduce: &str) -> Result<(), Failure> {
        if let Some(folder) = &self.fio {
            for (done, samples) in with_samples(done) {
                let name = format!("{}-{}", done.run.fs, done.run.scheme);
                let folder = folder.join(name);
                fs::create_dir_all(&folder).map_err(at(&folder))?;
                let path = folder.join("run.json");
                let text = fio::json(&done.run, samples, reproduce);
                fs::write(&path, text).map_err(at(&path))?;
            }
        }
        if let Some((path, mut file)) = self.hdr {
            let named = with_samples(done).map(|(done, samples)| {
                let name = format!("{}/{}", done.run.fs, done.run.scheme);
                (name, samples.clone())
            });
            let text = hdr::log(&named.collect::<Vec<_>>()).map_err(failed)?;
            file.write_all(text.as_bytes()).map_err(at(&path))?;
        }
        Ok(())
    }
}

fn with_samples(done: &[Done]) -> impl Iterator<Item = (&Done, &Samples)> {
    done.iter()
        .filter_map(|done| Some((done, done.samples.as_ref()?)))
}
