//! Programs that cargo installs for us, each at one version, below target/tools.

use crate::sh::sh;
use crate::{Result, workspace};
use std::path::PathBuf;

/// A program that is a crate.
pub struct Tool {
    /// Name of the program and of its crate.
    pub name: &'static str,
    /// What [`Tool::install`] installs. Any version in the search path will do.
    pub version: &'static str,
}

impl Tool {
    /// How to call it; `None` if it is not there.
    pub fn program(&self) -> Option<String> {
        [self.installed(), self.name.to_string()]
            .into_iter()
            .find(|program| sh(program, &["--version"]).is_ok())
    }

    /// Compiles and installs it, which takes minutes; answers how to call it.
    ///
    /// # Errors
    /// The registry cannot be reached, or it does not compile.
    pub fn install(&self) -> Result<String> {
        let root = folder();
        eprintln!(
            "installing {} {} into {}",
            self.name,
            self.version,
            root.display()
        );
        let root = root.to_string_lossy();
        let place = ["install", "--locked", "--quiet", "--root", &root];
        let what = ["--version", self.version, self.name];
        sh("cargo", &[&place[..], &what].concat())?;
        Ok(self.installed())
    }

    fn installed(&self) -> String {
        let path = folder().join("bin").join(self.name);
        path.to_string_lossy().into_owned()
    }
}

fn folder() -> PathBuf {
    workspace::root().join("target/tools")
}
