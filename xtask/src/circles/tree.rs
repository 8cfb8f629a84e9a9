//! The files of a crate as a tree of modules, each with the names that it defines or hands on.

use crate::Result;
use crate::tidy::source::is_test_item;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::{Item, UseTree};

/// One file.
pub struct File {
    /// Relative to `src`.
    pub path: String,
    /// The module that it is; empty for the root of the crate.
    pub module: Vec<String>,
    /// Its items, those for tests left out.
    pub items: Vec<Item>,
}

/// What a module knows by name.
#[derive(Default)]
pub struct Scope {
    /// Number of the file that the module stands in.
    pub file: usize,
    /// Items that it defines, modules left out.
    pub defined: BTreeSet<String>,
    /// Names that `use` brings in, with the path that each stands for.
    pub used: BTreeMap<String, Vec<String>>,
    /// Paths of `use a::b::*`.
    pub globs: Vec<Vec<String>>,
}

/// A crate.
pub struct Tree {
    /// Its files.
    pub files: Vec<File>,
    /// Its modules, also those inside of a file.
    pub modules: BTreeMap<Vec<String>, Scope>,
}

impl Tree {
    /// Reads the files below `source`.
    pub fn read(source: &Path) -> Result<Tree> {
        let mut texts = Vec::new();
        collect(source, source, &mut texts)?;
        texts.sort();
        let texts: Vec<_> = texts
            .iter()
            .map(|(p, t)| (p.as_str(), t.as_str()))
            .collect();
        Tree::of(&texts)
    }

    /// The tree of these files: path below `src`, text.
    pub fn of(texts: &[(&str, &str)]) -> Result<Tree> {
        let mut tree = Tree {
            files: Vec::new(),
            modules: BTreeMap::new(),
        };
        let mut tests = BTreeSet::new();
        for (path, text) in texts {
            let syntax = syn::parse_file(text).map_err(|e| format!("{path}: {e}"))?;
            let module = module_of(path);
            let items = without_tests(syntax.items, &module, &mut tests);
            let path = path.to_string();
            tree.files.push(File {
                path,
                module,
                items,
            });
        }
        let is_test = |file: &File| tests.iter().any(|test| file.module.starts_with(test));
        tree.files.retain(|file| !is_test(file));
        for (number, file) in tree.files.iter().enumerate() {
            add_module(&mut tree.modules, number, file.module.clone(), &file.items);
        }
        Ok(tree)
    }

    /// True if the module of `outer` contains that of `inner`.
    pub fn contains(&self, outer: usize, inner: usize) -> bool {
        self.files[inner]
            .module
            .starts_with(&self.files[outer].module)
    }
}

fn collect(root: &Path, folder: &Path, texts: &mut Vec<(String, String)>) -> Result {
    let failed = |e: std::io::Error| format!("cannot read {}: {e}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(root, &path, texts)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            let below = path.strip_prefix(root).unwrap_or(&path);
            texts.push((below.to_string_lossy().into_owned(), text));
        }
    }
    Ok(())
}

fn module_of(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = path
        .trim_end_matches(".rs")
        .split('/')
        .map(Into::into)
        .collect();
    let is_head = |name: &String| matches!(name.as_str(), "mod" | "lib" | "main");
    if parts.last().is_some_and(is_head) {
        parts.pop();
    }
    parts
}

/// Leaves out items for tests, and notes the modules among them.
fn without_tests(
    items: Vec<Item>,
    module: &[String],
    tests: &mut BTreeSet<Vec<String>>,
) -> Vec<Item> {
    let mut kept = Vec::new();
    for mut item in items {
        if is_test_item(&item) {
            if let Item::Mod(test) = &item {
                tests.insert(below(module, &test.ident.to_string()));
            }
            continue;
        }
        if let Item::Mod(inner) = &mut item
            && let Some((_, items)) = &mut inner.content
        {
            let module = below(module, &inner.ident.to_string());
            *items = without_tests(std::mem::take(items), &module, tests);
        }
        kept.push(item);
    }
    kept
}

/// The module `name` inside of `module`.
pub fn below(module: &[String], name: &str) -> Vec<String> {
    let mut path = module.to_vec();
    path.push(name.to_string());
    path
}

fn add_module(
    modules: &mut BTreeMap<Vec<String>, Scope>,
    file: usize,
    module: Vec<String>,
    items: &[Item],
) {
    let mut scope = Scope {
        file,
        ..Scope::default()
    };
    for item in items {
        match item {
            Item::Mod(inner) => {
                if let Some((_, items)) = &inner.content {
                    add_module(
                        modules,
                        file,
                        below(&module, &inner.ident.to_string()),
                        items,
                    );
                }
            }
            Item::Use(item) => flatten(&item.tree, &mut Vec::new(), &mut scope),
            Item::Macro(item) => made_by_macro(item.mac.tokens.clone(), &mut scope.defined),
            item => scope.defined.extend(name_of(item)),
        }
    }
    modules.insert(module, scope);
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Names behind `enum`, `struct` and so on in the input of a macro.
fn made_by_macro(tokens: TokenStream, defined: &mut BTreeSet<String>) {
    let mut after_keyword = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                if after_keyword {
                    defined.insert(word.clone());
                }
                after_keyword = matches!(
                    word.as_str(),
                    "enum" | "struct" | "fn" | "const" | "static" | "type" | "trait"
                );
            }
            TokenTree::Group(group) => made_by_macro(group.stream(), defined),
            _ => after_keyword = false,
        }
    }
}

/// Writes down what a `use` brings in.
fn flatten(tree: &UseTree, path: &mut Vec<String>, scope: &mut Scope) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, scope);
            path.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            if let Some(last) = path.last() {
                scope.used.insert(last.clone(), path.clone());
            }
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            scope.used.insert(name.clone(), below(path, &name));
        }
        UseTree::Rename(name) => {
            let known_as = name.rename.to_string();
            // `as _` brings in methods alone, and several may stand in one file.
            let known_as = match known_as.as_str() {
                "_" => format!("_{}", scope.used.len()),
                _ => known_as,
            };
            let path = match name.ident == "self" {
                true => path.clone(),
                false => below(path, &name.ident.to_string()),
            };
            scope.used.insert(known_as, path);
        }
        UseTree::Glob(_) => scope.globs.push(path.clone()),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, path, scope);
            }
        }
    }
}
