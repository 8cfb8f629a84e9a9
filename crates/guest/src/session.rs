//! One boot that runs many scripts, one after the other: a boot takes seconds, a script of a file
//! system's mount does not.
//!
//! The guest waits for the file `go.N` in the scratch directory, runs it, and leaves what it
//! printed in `said.N` and its exit status in `end.N`; then N grows by one. Both sides write under
//! another name and rename, so that nobody reads half a file. A guest whose host is gone, as one
//! that was killed, gets no script for ten minutes, and ends by itself.

use crate::Guest;
use crate::running::Running;
use crate::vm::{BOOT_LIMIT, POLL};
use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// What the guest does all the time. A look into the scratch directory is a call to the host.
const LOOP: &str = "
    n=0
    while :; do
        read -r since rest </proc/uptime
        while [ ! -e go.$n ]; do
            sleep 0.005
            read -r now rest </proc/uptime
            if [ ${now%%.*} -gt $((${since%%.*} + 600)) ]; then guest poweroff; fi
        done
        status=0
        ( set -eu; . ./go.$n ) >said.$n 2>&1 </dev/null || status=$?
        echo $status >ended.$n
        mv ended.$n end.$n
        n=$((n + 1))
    done
";

/// A kernel that is up and waits for scripts. Dropped, it is killed.
pub struct Session {
    guest: Guest,
    running: Running,
    limit: Duration,
    /// Number of the script that runs, or of the next one.
    next: u64,
    /// When it began.
    since: Instant,
    /// A script has ended, so the boot is over.
    booted: bool,
}

impl Session {
    /// Boots `guest`.
    ///
    /// # Errors
    /// The kernel does not start.
    pub fn start(guest: Guest) -> io::Result<Session> {
        let (running, limit) = guest.start(LOOP)?;
        Ok(Session {
            guest,
            running,
            limit,
            next: 0,
            since: Instant::now(),
            booted: false,
        })
    }

    /// Kills the kernel and boots it again, on the same disks and with what the scratch directory
    /// holds. What it held in memory is lost, and so is the script that ran.
    ///
    /// # Errors
    /// The kernel does not start.
    pub fn restart(&mut self) -> io::Result<()> {
        // Its disks are locked as long as it lives.
        self.running.kill()?;
        for name in ["go", "said", "ended", "end"] {
            let path = self.scratch().join(format!("{name}.{}", self.next));
            match fs::remove_file(path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        (self.running, self.limit) = self.guest.start(LOOP)?;
        (self.next, self.booted, self.since) = (0, false, Instant::now());
        Ok(())
    }

    /// The guest's scratch directory.
    pub fn scratch(&self) -> &std::path::Path {
        self.guest.scratch()
    }

    /// Runs a script, as [`Guest::run`] does, in a shell of its own; answers its exit status and
    /// what it printed.
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionAborted`] if the kernel dies; [`ErrorKind::TimedOut`] if the script
    /// is not done within the guest's limit (the first one also has the time of a boot);
    /// [`ErrorKind::Interrupted`] if somebody wants it to end.
    pub fn run(&mut self, script: &str) -> io::Result<(i32, String)> {
        self.begin(script)?;
        loop {
            if let Some(done) = self.ended()? {
                return Ok(done);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Begins a script; [`ended`](Session::ended) tells when it is done. One at a time.
    ///
    /// # Errors
    /// The scratch directory cannot be written.
    pub fn begin(&mut self, script: &str) -> io::Result<()> {
        let dir = self.guest.scratch();
        let part = dir.join("go.part");
        fs::write(&part, script)?;
        fs::rename(&part, dir.join(format!("go.{}", self.next)))?;
        self.since = Instant::now();
        Ok(())
    }

    /// Gives the script that runs its whole time again, from now on.
    pub fn extend(&mut self) {
        self.since = Instant::now();
    }

    /// Exit status and output of the script that was begun; none while it runs.
    ///
    /// # Errors
    /// As [`run`](Session::run).
    pub fn ended(&mut self) -> io::Result<Option<(i32, String)>> {
        let (nr, dir) = (self.next, self.guest.scratch());
        let [go, said, end] = ["go", "said", "end"].map(|name| dir.join(format!("{name}.{nr}")));
        if !end.exists() {
            self.guest.go_on()?;
            let limit = match self.booted {
                false => BOOT_LIMIT + self.limit,
                true => self.limit,
            };
            if self.running.is_over()? {
                let why = self.guest.failed("the guest died");
                return Err(io::Error::new(ErrorKind::ConnectionAborted, why));
            }
            if self.since.elapsed() > limit {
                let why = self.guest.failed("the guest was not done in time");
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            return Ok(None);
        }
        self.next += 1;
        self.booted = true;
        let (status, words) = (fs::read_to_string(&end)?, fs::read(&said)?);
        for path in [go, said, end] {
            fs::remove_file(path)?;
        }
        let status = status.trim().parse().map_err(io::Error::other)?;
        Ok(Some((status, String::from_utf8_lossy(&words).into_owned())))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Nobody is left to whom an error could be told.
        let _ = self.running.kill();
    }
}
