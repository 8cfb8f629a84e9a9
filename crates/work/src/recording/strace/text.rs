//! The arguments of a call in strace's text: their borders, strings and descriptors.

/// Splits arguments at the commas that stand in no string, bracket or descriptor's path.
pub(super) fn split(args: &str) -> Vec<&str> {
    let bytes = args.as_bytes();
    let mut parts = Vec::new();
    let (mut from, mut at, mut depth) = (0, 0, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'<' => at = path_end(bytes, at),
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(args[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let last = args[from..].trim();
    if !last.is_empty() || !parts.is_empty() {
        parts.push(last);
    }
    parts
}

/// The place of the quote that ends the string which begins at `from`.
fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    at
}

/// The place of the `>` that ends the path of a descriptor (`3</a, b>`), or `from` where `<` is
/// another sign, as in `1<<3`.
fn path_end(bytes: &[u8], from: usize) -> usize {
    let descriptor = from > 0 && (bytes[from - 1].is_ascii_digit() || bytes[from - 1] == b'D');
    if !descriptor || bytes.get(from + 1) == Some(&b'<') {
        return from;
    }
    let ends = |at: &usize| {
        bytes[*at] == b'>' && matches!(bytes.get(at + 1), None | Some(b',' | b')' | b'(' | b']'))
    };
    (from..bytes.len()).find(ends).unwrap_or(from)
}

/// The text of a quoted string; `None` where it was shortened (`"abc"...`) or is no string.
pub(super) fn string(arg: &str) -> Option<String> {
    let inner = arg.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'v' => bytes.push(11),
            b'f' => bytes.push(12),
            b'x' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            digit @ b'0'..=b'7' => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(next) = rest.next_if(|b| matches!(b, b'0'..=b'7')) {
                        value = value * 8 + u32::from(next - b'0');
                    }
                }
                bytes.push(u8::try_from(value).ok()?);
            }
            other => bytes.push(other),
        }
    }
    // Names that are no UTF-8 stay different from each other as far as their other signs go.
    Some(String::from_utf8_lossy(&bytes).replace('\0', "?"))
}

/// A descriptor's number, and its path where strace was called with `-y`.
pub(super) fn descriptor(arg: &str) -> Option<(u32, Option<String>)> {
    let (number, path) = match arg.split_once('<') {
        Some((number, path)) => (number, path.rsplit_once('>').map(|(path, _)| path)),
        None => (arg.split_whitespace().next()?, None),
    };
    let quoted = path.map(|path| string(&format!("\"{path}\"")).unwrap_or_default());
    Some((number.trim().parse().ok()?, quoted))
}

/// The working directory of a call: `AT_FDCWD</home>` with `-y`.
pub(super) fn working_directory(arg: &str) -> Option<Option<String>> {
    let behind = arg.strip_prefix("AT_FDCWD")?;
    let path = behind.strip_prefix('<').and_then(|p| p.strip_suffix('>'));
    Some(path.map(Into::into))
}

/// A number in decimal or hexadecimal.
pub(super) fn number(arg: &str) -> Option<i64> {
    let word = arg.split_whitespace().next()?;
    match word.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// The value of a field in the text of a structure: `st_size=7`.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = text;
    loop {
        let at = rest.find(name)?;
        let behind = rest[at + name.len()..].strip_prefix('=');
        let begins = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if let (true, Some(value)) = (begins, behind) {
            return Some(value.split([',', '}']).next().unwrap_or("").trim());
        }
        rest = &rest[at + name.len()..];
    }
}

/// True if the flag is one of those that `|` joins.
pub(super) fn has_flag(flags: &str, flag: &str) -> bool {
    flags.split('|').any(|f| f.trim() == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_end_at_their_own_commas() {
        let text = r#"3</a, b>, "x, \"y", {st_mode=S_IFREG|0644, st_size=5}, [1, 2], 1<<3"#;
        let parts = split(text);
        assert_eq!(parts.len(), 5, "{parts:?}");
        assert_eq!(parts[0], "3</a, b>");
        assert_eq!(parts[1], r#""x, \"y""#);
        assert_eq!(field(parts[2], "st_size"), Some("5"));
        assert_eq!(field(parts[2], "size"), None);
        assert!(split("").is_empty());
        assert_eq!(split("\"cut in the midd"), ["\"cut in the midd"]);
    }

    #[test]
    fn strings_and_descriptors_are_read() {
        assert_eq!(
            string(r#""a\303\244\n\x41\\\"""#).unwrap(),
            "a\u{e4}\nA\\\""
        );
        for cut in [
            r#""abc"..."#,
            "0x7f00",
            r#""\"#,
            "\"",
            r#""\x4""#,
            r#""\777""#,
        ] {
            assert_eq!(string(cut), None, "{cut}");
        }
        assert_eq!(descriptor("7"), Some((7, None)));
        assert_eq!(descriptor("7</a b>"), Some((7, Some("/a b".into()))));
        assert_eq!(descriptor("AT_FDCWD"), None);
        assert_eq!(working_directory("AT_FDCWD</h>"), Some(Some("/h".into())));
        assert_eq!(working_directory("AT_FDCWD"), Some(None));
        assert_eq!((number("0x10"), number("-1 ENOENT")), (Some(16), Some(-1)));
        assert!(has_flag("O_RDWR|O_CREAT", "O_CREAT") && !has_flag("O_CREATE", "O_CREAT"));
    }
}
