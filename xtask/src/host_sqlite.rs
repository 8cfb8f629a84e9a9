//! The SQLite workload in its own process, on SQLite's own file layer: the kernel's side.

use crate::Result;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process `varve host-sqlite`. It prepares, says `ready`, waits for a line, runs, says `done`,
/// and waits for the end of its input.
pub struct HostSqlite {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl HostSqlite {
    /// Starts `varve` on `database` with a workload in the words of `varve compare`, and waits
    /// until it is ready.
    pub fn start(varve: &Path, database: &Path, spec: &str) -> Result<HostSqlite> {
        let mut child = Command::new(varve)
            .args(["host-sqlite", "--workload", spec, "--database"])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", varve.display()))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut host = HostSqlite {
            child,
            input,
            output,
        };
        host.expect("ready")?;
        Ok(host)
    }

    /// Runs the transactions.
    pub fn go(&mut self) -> Result {
        let input = self
            .input
            .as_mut()
            .expect("the input is open until the end");
        writeln!(input, "go").map_err(|e| format!("host-sqlite: {e}"))?;
        self.expect("done")
    }

    /// Closes the database.
    pub fn end(mut self) -> Result {
        drop(self.input.take());
        match self.child.wait() {
            Ok(s) if s.success() => Ok(()),
            other => Err(format!("host-sqlite ended badly: {other:?}")),
        }
    }

    fn expect(&mut self, word: &str) -> Result {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .map_err(|e| format!("host-sqlite: {e}"))?;
        match line.trim() == word {
            true => Ok(()),
            false => Err(format!(
                "host-sqlite said `{}`, `{word}` was expected",
                line.trim()
            )),
        }
    }
}
