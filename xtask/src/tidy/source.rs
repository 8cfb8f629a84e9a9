//! A parsed Rust file, and which of its lines are test code: some rules do not hold there.

use super::Finding;
use proc_macro2::Span;
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemFn, TraitItemFn};

/// One function: name and the lines from its signature to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without the type that it belongs to.
    pub name: String,
    /// First and last line.
    pub lines: RangeInclusive<usize>,
}

/// One Rust file.
pub struct Source {
    /// Relative to the root.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its syntax tree.
    pub syntax: syn::File,
    /// All functions with a body, without test code.
    pub functions: Vec<Function>,
    /// Line ranges of items marked `#[cfg(test)]` or `#[test]`.
    test_lines: Vec<RangeInclusive<usize>>,
    /// The whole file is test code: below `tests/` or `benches/`, or named `tests.rs`.
    all_test: bool,
}

impl Source {
    /// Parses `text`; a syntax error is a finding.
    pub fn parse(path: &str, text: String) -> Result<Source, Finding> {
        let syntax = syn::parse_file(&text).map_err(|e| {
            Finding::new(path, e.span().start().line, format!("does not parse: {e}"))
        })?;
        let mut walk = Walk::default();
        walk.visit_file(&syntax);
        Ok(Source {
            path: path.to_string(),
            text,
            functions: walk.functions,
            test_lines: walk.test_lines,
            all_test: is_test_path(path),
            syntax,
        })
    }

    /// True if the line belongs to test code.
    pub fn is_test(&self, line: usize) -> bool {
        self.all_test || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// Number of lines that are not test code, blank lines and comments included.
    pub fn production_lines(&self) -> usize {
        (1..=self.text.lines().count())
            .filter(|&line| !self.is_test(line))
            .count()
    }

    /// The directory below `crates/` that the file belongs to.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

fn is_test_path(path: &str) -> bool {
    path.split('/')
        .any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

/// True for `#[test]` and `#[cfg(test)]`, not for `#[cfg(any(test, ...))]`: that code ships.
fn marks_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_test = attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"));
        attribute.path().is_ident("test") || is_cfg_test
    })
}

fn lines_of(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

/// True for an item that is compiled for tests alone.
pub fn is_test_item(item: &Item) -> bool {
    marks_test(attributes_of(item))
}

/// The attributes of an item, for the kinds of items that carry test code.
fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Const(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        _ => &[],
    }
}

#[derive(Default)]
struct Walk {
    functions: Vec<Function>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl Walk {
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = signature.ident.to_string();
        let lines = signature.span().start().line..=block.span().end().line;
        self.functions.push(Function { name, lines });
    }
}

impl<'a> Visit<'a> for Walk {
    fn visit_item(&mut self, item: &'a Item) {
        if is_test_item(item) {
            self.test_lines.push(lines_of(item.span()));
        } else {
            visit::visit_item(self, item);
        }
    }
    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }
    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        if marks_test(&item.attrs) {
            self.test_lines.push(lines_of(item.span()));
            return;
        }
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
    fn visit_trait_item_fn(&mut self, item: &'a TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//! Head.
/// Doc is not counted.
#[inline]
fn one(
    a: u32,
) -> u32 {
    a
}
impl X {
    fn two() {}
    #[cfg(test)]
    fn only_in_tests() {
        one(1);
    }
}
#[cfg(test)]
mod tests {
    #[test]
    fn three() {}
}
";

    #[test]
    fn functions_and_test_lines_are_measured() {
        let source = Source::parse("crates/base/src/a.rs", TEXT.to_string()).unwrap();
        let expected = [("one", 4..=8), ("two", 10..=10)].map(|(name, lines)| Function {
            name: name.to_string(),
            lines,
        });
        assert_eq!(source.functions, expected);
        assert_eq!(source.production_lines(), 20 - 4 - 5);
        assert!(source.is_test(18) && !source.is_test(9));
        assert_eq!(source.crate_name(), Some("base"));
    }

    #[test]
    fn code_that_ships_behind_a_feature_counts() {
        let text = "//! H\n#[cfg(any(test, feature = \"check\"))]\nfn check() {}\n";
        let source = Source::parse("crates/base/src/a.rs", text.to_string()).unwrap();
        assert_eq!(source.production_lines(), 3);
        let test = Source::parse("crates/base/tests/a.rs", text.to_string()).unwrap();
        assert_eq!(test.production_lines(), 0);
        assert!(Source::parse("a.rs", "fn (".to_string()).is_err());
    }
}
