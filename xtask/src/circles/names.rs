//! Which file names an item of which other: every path of a file, looked up as the compiler would.

use super::tree::{Scope, Tree, below};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::visit::{self, Visit};

/// How many `use` one name may lead through, so that `pub use` in a circle ends.
const STEPS_MAX: u32 = 16;

/// The edges of the graph: numbers of the file that names and of the file that defines.
pub fn edges(tree: &Tree) -> BTreeSet<(usize, usize)> {
    let mut edges = BTreeSet::new();
    for scope in tree.modules.keys() {
        let known = &tree.modules[scope];
        for path in known.used.values().chain(&known.globs) {
            add(tree, scope, path, &mut edges);
        }
    }
    for file in &tree.files {
        let mut walk = Walk {
            tree,
            module: file.module.clone(),
            edges: &mut edges,
        };
        file.items.iter().for_each(|item| walk.visit_item(item));
    }
    edges
}

fn add(tree: &Tree, module: &[String], path: &[String], edges: &mut BTreeSet<(usize, usize)>) {
    let from = tree.modules[module].file;
    if let Some(to) = resolve(tree, module, path, 0)
        && to != from
    {
        edges.insert((from, to));
    }
}

/// What a path stands for.
enum Place {
    Module(Vec<String>),
    /// An item of this file.
    File(usize),
}

/// Number of the file that defines what `path` says in `module`; `None` for another crate.
fn resolve(tree: &Tree, module: &[String], path: &[String], steps: u32) -> Option<usize> {
    match place(tree, module, path, steps)? {
        Place::Module(module) => Some(tree.modules.get(&module)?.file),
        Place::File(file) => Some(file),
    }
}

fn place(tree: &Tree, module: &[String], path: &[String], steps: u32) -> Option<Place> {
    if steps > STEPS_MAX {
        return None;
    }
    let mut here = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module.split_last()?.1.to_vec(),
        name => match member(tree, module, name, steps)? {
            Place::Module(module) => module,
            found => return Some(found),
        },
    };
    for name in &path[1..] {
        if name == "super" {
            here.pop();
            continue;
        }
        match member(tree, &here, name, steps) {
            Some(Place::Module(inner)) => here = inner,
            Some(found) => return Some(found),
            // Made by a macro that we cannot see through: it is of this module.
            None => break,
        }
    }
    Some(Place::Module(here))
}

/// What `name` means inside of `module`.
fn member(tree: &Tree, module: &[String], name: &str, steps: u32) -> Option<Place> {
    let inner = below(module, name);
    let scope: &Scope = tree.modules.get(module)?;
    if tree.modules.contains_key(&inner) {
        return Some(Place::Module(inner));
    }
    if scope.defined.contains(name) {
        return Some(Place::File(scope.file));
    }
    if let Some(path) = scope.used.get(name)
        && path.first().is_none_or(|first| first != name)
    {
        return place(tree, module, path, steps + 1);
    }
    let through = |path: &Vec<String>| match place(tree, module, path, steps + 1)? {
        Place::Module(other) if other != module => member(tree, &other, name, steps + 1),
        _ => None,
    };
    match steps < STEPS_MAX {
        true => scope.globs.iter().find_map(through),
        false => None,
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    module: Vec<String>,
    edges: &'a mut BTreeSet<(usize, usize)>,
}

impl Walk<'_> {
    fn named(&mut self, path: &[String]) {
        add(self.tree, &self.module, path, self.edges);
    }

    /// Paths in the input of a macro: names with `::` between them.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.named(&std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.named(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.named(&path);
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }
    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            self.named(&names);
        }
        visit::visit_path(self, path);
    }
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
    }
}
