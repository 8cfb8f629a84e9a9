//! Runs the tests of F2FSJ's journal with a journal of pages: what a cut may leave does not depend
//! on what a transaction is made of (pages-J7).
#![allow(clippy::duplicate_mod)] // On purpose: the same programs with two schemes.
#![allow(clippy::disallowed_methods)]

/// A journal of pages, and nothing else of F2FSJ.
#[path = "journal"]
mod page_journal {
    /// How the volumes of this suite are mounted.
    pub const SCHEME: &str = "scheme=page-journal";
    use crate::common as images;
    mod ahead;
    mod applied;
    mod apply;
    mod attack;
    mod commit;
    mod common;
    mod cuts;
    mod ends;
    mod foreign;
    mod holes;
    mod large;
    mod race;
    mod recover;
    mod space;
    mod world;
}

/// F2FSJ with pages in the place of records.
#[path = "journal"]
mod records_pages {
    /// How the volumes of this suite are mounted.
    pub const SCHEME: &str = "scheme=f2fsj,records=pages";
    use crate::common as images;
    mod ahead;
    mod applied;
    mod apply;
    mod attack;
    mod common;
    mod cuts;
    mod holes;
    mod large;
    mod race;
}
