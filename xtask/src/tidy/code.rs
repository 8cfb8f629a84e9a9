//! Rules on tokens and items of a Rust file.
//!
//! - C1: every file begins with a module doc.
//! - C2: there are no leftover macros, which stand for work not done or for a debugging session.
//! - C3: there is no bare `unwrap()` outside tests, because `expect` says why it cannot fail.
//! - C4: `unsafe` stands only in the crates listed in `tidy.toml`.
//! - C5: there is no static with state outside the listed crates, because two simulations in one
//!   process would share it.

use super::Finding;
use super::config::Config;
use super::source::Source;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Checks one file.
pub fn check(source: &Source, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !has_head(&source.syntax) {
        let what = "C1: begin the file with a module doc: //! what it is";
        findings.push(Finding::new(&source.path, 1, what));
    }
    if let Ok(tokens) = source.text.parse::<TokenStream>() {
        let may_unsafe = allowed(source, &config.unsafe_crates);
        check_tokens(source, tokens, may_unsafe, &mut findings);
    }
    if !allowed(source, &config.static_crates) {
        let mut statics = Statics {
            source,
            findings: &mut findings,
        };
        statics.visit_file(&source.syntax);
    }
    findings
}

fn allowed(source: &Source, crates: &[String]) -> bool {
    source
        .crate_name()
        .is_some_and(|name| crates.iter().any(|c| c == name))
}

fn has_head(file: &syn::File) -> bool {
    file.attrs
        .iter()
        .any(|a| matches!(a.style, syn::AttrStyle::Inner(_)) && a.path().is_ident("doc"))
}

const LEFTOVERS: [&str; 3] = ["todo", "unimplemented", "dbg"];

fn check_tokens(
    source: &Source,
    tokens: TokenStream,
    may_unsafe: bool,
    findings: &mut Vec<Finding>,
) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (i, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => check_tokens(source, group.stream(), may_unsafe, findings),
            TokenTree::Ident(ident) => {
                let line = ident.span().start().line;
                let name = ident.to_string();
                let after_dot = i > 0 && is_punct(tokens.get(i - 1), '.');
                if LEFTOVERS.contains(&name.as_str()) && is_punct(tokens.get(i + 1), '!') {
                    let what = format!("C2: {name}! is a leftover");
                    findings.push(Finding::new(&source.path, line, what));
                }
                if name == "unwrap"
                    && after_dot
                    && is_call(tokens.get(i + 1))
                    && !source.is_test(line)
                {
                    let what = "C3: unwrap() without a reason; use expect(\"why it cannot fail\")";
                    findings.push(Finding::new(&source.path, line, what));
                }
                if name == "unsafe" && !may_unsafe {
                    let what = "C4: unsafe is not allowed in this crate";
                    findings.push(Finding::new(&source.path, line, what));
                }
            }
            _ => {}
        }
    }
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == wanted)
}

fn is_call(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(g))
        if g.delimiter() == Delimiter::Parenthesis && g.stream().is_empty())
}

/// Finds statics with state (C5).
struct Statics<'a> {
    source: &'a Source,
    findings: &'a mut Vec<Finding>,
}

const STATEFUL: [&str; 12] = [
    "Mutex",
    "RwLock",
    "Condvar",
    "Cell",
    "RefCell",
    "UnsafeCell",
    "OnceCell",
    "OnceLock",
    "Once",
    "LazyLock",
    "LazyCell",
    "SyncUnsafeCell",
];

impl<'a> Visit<'a> for Statics<'_> {
    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        let mut state = State(matches!(item.mutability, syn::StaticMutability::Mut(_)));
        state.visit_type(&item.ty);
        let line = item.ident.span().start().line;
        if state.0 && !self.source.is_test(line) {
            let what = format!(
                "C5: static {} holds state; hang it on the world",
                item.ident
            );
            self.findings
                .push(Finding::new(&self.source.path, line, what));
        }
        visit::visit_item_static(self, item);
    }
}

/// Whether a type names something that can change behind a shared reference.
struct State(bool);

impl<'a> Visit<'a> for State {
    fn visit_ident(&mut self, ident: &'a proc_macro2::Ident) {
        let name = ident.to_string();
        self.0 |= STATEFUL.contains(&name.as_str()) || name.starts_with("Atomic");
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::SMALL;
    use super::*;

    fn findings_in(path: &str, text: &str) -> Vec<String> {
        let config = Config::parse(SMALL).unwrap();
        let source = Source::parse(path, text.to_string()).unwrap();
        check(&source, &config)
            .into_iter()
            .map(|f| f.what[..2].to_string())
            .collect()
    }

    fn findings(text: &str) -> Vec<String> {
        findings_in("crates/base/src/a.rs", &format!("//! Head.\n{text}"))
    }

    #[test]
    fn a_file_without_head_is_found() {
        assert_eq!(findings_in("crates/base/src/a.rs", "fn f() {}\n"), ["C1"]);
        assert!(findings("fn f() {}").is_empty());
    }

    #[test]
    fn leftovers_are_found_also_inside_macros() {
        for name in LEFTOVERS {
            assert_eq!(findings(&format!("fn f() {{ vec![{name}!(1)]; }}")), ["C2"]);
        }
        assert!(findings("fn todo() { todo(); } // todo!() in a comment").is_empty());
    }

    #[test]
    fn unwrap_is_found_outside_tests() {
        assert_eq!(findings("fn f() { x.unwrap(); }"), ["C3"]);
        assert_eq!(findings("fn f() { assert!(x.unwrap()); }"), ["C3"]);
        assert!(findings("fn f() { x.unwrap_or(1); }").is_empty());
        assert!(findings("#[cfg(test)]\nmod tests { fn f() { x.unwrap(); } }").is_empty());
    }

    #[test]
    fn unsafe_is_found_outside_the_listed_crates() {
        let text = "//! Head.\nfn f() { unsafe { g() } }";
        assert_eq!(findings_in("crates/base/src/a.rs", text), ["C4"]);
        assert!(findings_in("crates/rt/src/a.rs", text).is_empty());
    }

    #[test]
    fn statics_with_state_are_found() {
        assert_eq!(
            findings("static A: std::sync::atomic::AtomicU32 = x();"),
            ["C5"]
        );
        assert_eq!(findings("static A: rt::Mutex<u32> = x();"), ["C5"]);
        assert_eq!(findings("fn f() { static mut A: u32 = 1; }"), ["C5"]);
        assert!(findings("static A: &[u32] = &[1];").is_empty());
    }
}
