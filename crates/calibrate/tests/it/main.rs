//! All tests of the crate, in one program that is linked once.

mod bench;
mod fio;
mod fitting;
mod known;
mod profiles;
mod served;
