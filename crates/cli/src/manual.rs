//! `varve man` and `varve completions`: what the command line says of itself, for `man` and for
//! shells.

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::failure::{Failure, failed};
use crate::out::say;
use clap::CommandFactory;

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output is gone.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "varve", &mut text);
    say(&String::from_utf8_lossy(&text))
}

/// Writes a manual page for each command into a folder, or prints that of the program.
///
/// # Errors
/// The host refuses.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let command = Args::command();
    match &args.out {
        Some(folder) => {
            let host = |e: std::io::Error| failed(format!("{}: {e}", folder.display()));
            std::fs::create_dir_all(folder).map_err(host)?;
            clap_mangen::generate_to(command, folder).map_err(host)
        }
        None => {
            let command = command.disable_help_subcommand(true);
            let mut text = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut text);
            rendered.map_err(|e| failed(e.to_string()))?;
            say(&String::from_utf8_lossy(&text))
        }
    }
}
