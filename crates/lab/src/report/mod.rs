//! `index.html`: one self-contained page with tables and plots. Same results, same bytes.

mod page;
mod plot;

pub use page::page;
