//! The test that is made of a function.

use crate::options::Options;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Error, ItemFn, Path, Result, parse2};

/// The test, or the words of the compiler about what is wrong.
pub fn test(calls: &Path, options: TokenStream, item: TokenStream) -> TokenStream {
    let made = parse2(options).and_then(|options| made(calls, &options, parse2(item.clone())?));
    // With the function as it is, what uses it has no errors of its own.
    made.unwrap_or_else(|e| {
        let error = e.into_compile_error();
        quote!(#error #item)
    })
}

fn made(calls: &Path, options: &Options, mut run: ItemFn) -> Result<TokenStream> {
    fits(&run)?;
    let attributes = std::mem::take(&mut run.attrs);
    let visible = run.vis.clone();
    let name = run.sig.ident.clone();
    let inner = format_ident!("{name}");
    let check = match &options.check {
        Some(check) => quote!(::core::option::Option::Some(#calls::check(#check))),
        None => quote!(::core::option::Option::None),
    };
    let setup = match &options.setup {
        Some(setup) => quote!(::core::option::Option::Some(#calls::step(#setup))),
        None => quote!(::core::option::Option::None),
    };
    let others = options
        .others
        .iter()
        .map(|(name, value)| quote!((#name, #value)));
    Ok(quote! {
        #(#attributes)*
        #[::core::prelude::v1::test]
        #visible fn #name() {
            #run
            #calls::run(&#calls::Case {
                package: ::core::option_env!("CARGO_PKG_NAME"),
                module: ::core::module_path!(),
                name: ::core::stringify!(#name),
                run: #calls::step(#inner),
                setup: #setup,
                check: #check,
                options: &[#(#others),*],
            });
        }
    })
}

/// Whether a crash test can be made of the function.
fn fits(run: &ItemFn) -> Result<()> {
    let sig = &run.sig;
    let why = if sig.asyncness.is_some() {
        "a crash test is no async function: let it start a runtime of its own"
    } else if !sig.generics.params.is_empty() {
        "a crash test has no generic parameters"
    } else if sig.inputs.len() != 1 {
        "a crash test has one parameter, the directory: `dir: &Path`"
    } else {
        return Ok(());
    };
    Err(Error::new_spanned(sig, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn of(item: TokenStream) -> String {
        let calls = parse_quote!(::varve_crash_test::made);
        test(&calls, quote!(check = whole, model = "posix"), item).to_string()
    }

    #[test]
    fn attributes_of_the_function_are_those_of_the_test() {
        let made = of(quote! {
            #[should_panic(expected = "lost")]
            #[ignore]
            fn save(dir: &Path) -> std::io::Result<()> { Ok(()) }
        });
        let begin = "# [should_panic (expected = \"lost\")] # [ignore] # [:: core :: prelude :: v1 :: test] fn save () {";
        assert!(made.starts_with(begin), "{made}");
        assert!(made.contains("(\"model\" , \"posix\")"), "{made}");
        assert!(made.contains("check (whole)"), "{made}");
    }

    #[test]
    fn a_function_that_is_no_crash_test_is_refused() {
        for (item, why) in [
            (
                quote!(
                    async fn save(dir: &Path) {}
                ),
                "no async function",
            ),
            (
                quote!(
                    fn save<T>(dir: &Path) {}
                ),
                "no generic parameters",
            ),
            (
                quote!(
                    fn save() {}
                ),
                "one parameter",
            ),
            (
                quote!(
                    fn save(dir: &Path, acks: u8) {}
                ),
                "one parameter",
            ),
        ] {
            let made = of(item);
            assert!(
                made.contains("compile_error") && made.contains(why),
                "{made}"
            );
        }
    }
}
