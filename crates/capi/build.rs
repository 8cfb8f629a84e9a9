//! Gives the shared library its name for the loader, which has the version of the interface: a
//! program that is linked with it finds no library of another one.

// Cargo talks to a build script through the environment and standard output.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

/// `VARVE_ABI_VERSION`; a test compares both.
const ABI_VERSION: u32 = 1;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libvarve.so.{ABI_VERSION}");
    }
}
