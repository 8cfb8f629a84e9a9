//! What papers are measured with, through the seams that users have.

mod choosing;
mod fast_commits;
mod pages;
mod recovery;
