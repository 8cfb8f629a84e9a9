//! `varve campaign submit --dask`: the Python package deals shares of the plan to the workers of a
//! scheduler of Dask, and this waits until all results are made.

use crate::args::SubmitArgs;
use crate::failure::{Failure, failed};
use std::process::{Command, Stdio};

/// What the interpreter needs, and what runs in it.
const MODULE: &str = "varve._dask";

/// Hands the work to the scheduler at this address.
pub fn submit(args: &SubmitArgs, address: &str) -> Result<(), Failure> {
    let python = &args.python;
    let why = |e: std::io::Error| failed(format!("{}: {e}", python.display()));
    let looked = Command::new(python)
        .args(["-c", &format!("import {MODULE}, distributed")])
        .stdin(Stdio::null())
        .output()
        .map_err(why)?;
    if !looked.status.success() {
        let said = String::from_utf8_lossy(&looked.stderr);
        let last = said.trim_end().lines().last().unwrap_or("it cannot import");
        return Err(failed(format!(
            "{}: {last}; --dask needs the Python packages varve and distributed there, --python names another interpreter",
            python.display()
        )));
    }
    let program = std::env::current_exe().map_err(|e| failed(format!("own program: {e}")))?;
    let mut line = Command::new(python);
    line.args(["-m", MODULE, address, "--plan"])
        .arg(&args.plan)
        .arg("--store")
        .arg(&args.store)
        .args(["--workers", &args.cpus.to_string()])
        // The package would run its own program, whose plans may be others.
        .env("VARVE", program);
    if let Some(tasks) = args.tasks {
        line.args(["--shares", &tasks.to_string()]);
    }
    if args.send {
        line.arg("--send");
    }
    match line.status().map_err(why)? {
        status if status.success() => Ok(()),
        // It has said why.
        _ => Err(Failure::Told),
    }
}
