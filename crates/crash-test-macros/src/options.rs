//! What stands in the brackets of the attribute: `check = whole, model = "posix", states = 500`.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, Result, Token};

/// Options of `varve crash --dir` that are handed on as they are.
const HANDED_ON: [&str; 16] = [
    "allow_failure",
    "backtrace",
    "device",
    "fail",
    "from",
    "jobs",
    "judge",
    "keep",
    "memory",
    "model",
    "runs",
    "size",
    "states",
    "subset",
    "suggest",
    "timeout",
];

/// The options of one test.
#[derive(Default)]
pub struct Options {
    /// The function that judges.
    pub check: Option<Expr>,
    /// The function that runs before the recording.
    pub setup: Option<Expr>,
    /// Names and values for the command line; an empty value is none.
    pub others: Vec<(String, String)>,
}

struct One {
    name: Ident,
    value: Expr,
}

impl Parse for One {
    fn parse(input: ParseStream<'_>) -> Result<One> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        Ok(One { name, value })
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Options> {
        let mut options = Options::default();
        for one in Punctuated::<One, Token![,]>::parse_terminated(input)? {
            options.take(one)?;
        }
        options.judged()
    }
}

impl Options {
    fn take(&mut self, one: One) -> Result<()> {
        let name = one.name.to_string();
        let twice = || Error::new(one.name.span(), format!("`{name}` is given twice"));
        match name.as_str() {
            "check" if self.check.is_some() => return Err(twice()),
            "setup" if self.setup.is_some() => return Err(twice()),
            "check" => self.check = Some(one.value),
            "setup" => self.setup = Some(one.value),
            other if HANDED_ON.contains(&other) => {
                let value = value(&one.value)?;
                self.others.extend(value.map(|value| (name, value)));
            }
            _ => {
                let known = HANDED_ON.join("`, `");
                let why = format!(
                    "there is no option `{name}`: `check` and `setup` are functions, and `{known}` are options of `varve crash --dir`"
                );
                return Err(Error::new(one.name.span(), why));
            }
        }
        Ok(())
    }

    /// Succeeds if exactly one judges: without a judge every tree is taken for good.
    fn judged(self) -> Result<Options> {
        let named = self.others.iter().any(|(name, _)| name == "judge");
        let why = match (self.check.is_some(), named) {
            (true, false) | (false, true) => return Ok(self),
            (true, true) => "say either `check` or `judge`",
            (false, false) => {
                "who judges is missing: say `check = FUNCTION`, or `judge = \"sqlite\"` for a judge of `varve crash --dir`"
            }
        };
        Err(Error::new(Span::call_site(), why))
    }
}

/// The text of a literal; `None`: `false`, which leaves the option out.
fn value(value: &Expr) -> Result<Option<String>> {
    let Expr::Lit(ExprLit { lit, .. }) = value else {
        return Err(Error::new(
            value.span(),
            "this option takes a literal: a text, a number, true or false",
        ));
    };
    match lit {
        Lit::Str(text) => Ok(Some(text.value())),
        Lit::Int(number) => Ok(Some(number.base10_digits().to_string())),
        Lit::Bool(yes) => Ok(yes.value().then(String::new)),
        other => Err(Error::new(
            other.span(),
            "this option takes a text, a number, true or false",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> std::result::Result<Options, String> {
        syn::parse_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn functions_and_options_are_told_apart() {
        let text = r#"check = whole, setup = |dir| (), model = "posix", states = 5, backtrace = true, allow_failure = false"#;
        let options = parsed(text).unwrap();
        assert!(options.check.is_some() && options.setup.is_some());
        let others = [("model", "posix"), ("states", "5"), ("backtrace", "")];
        let others = others.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(options.others, others);
        assert!(parsed(r#"judge = "sqlite""#).is_ok());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let why = |text: &str| parsed(text).err().unwrap();
        assert!(why("check = a, check = b").contains("`check` is given twice"));
        assert!(why("check = a, setup = b, setup = c").contains("`setup` is given twice"));
        assert!(why("check = a, modle = \"posix\"").contains("no option `modle`"));
        assert!(why("check = a, model = MODEL").contains("takes a literal"));
        assert!(why("check = a, states = 1.5").contains("a text, a number"));
        assert!(why("").contains("who judges is missing"));
        assert!(why("check = a, judge = \"sqlite\"").contains("either `check` or `judge`"));
    }
}
