//! The attribute `crash_test`, for `varve-crash-test` and for `varve`, which differ in the path of
//! what the code that it makes calls.

mod expand;
mod options;

use proc_macro::TokenStream;
use syn::parse_quote;

/// A test that fails if a power cut may leave what its check rejects; see the crate
/// `varve-crash-test`.
#[proc_macro_attribute]
pub fn crash_test(options: TokenStream, item: TokenStream) -> TokenStream {
    let calls = parse_quote!(::varve_crash_test::made);
    expand::test(&calls, options.into(), item.into()).into()
}

/// The same for who names the crate `varve` only.
#[proc_macro_attribute]
pub fn crash_test_of_varve(options: TokenStream, item: TokenStream) -> TokenStream {
    let calls = parse_quote!(::varve::crash_test::made);
    expand::test(&calls, options.into(), item.into()).into()
}
