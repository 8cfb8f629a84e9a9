//! The tests of both worlds, in one program that is linked once.

mod explore;
mod failures;
mod sim;
mod worlds;
