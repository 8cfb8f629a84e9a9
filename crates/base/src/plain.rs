//! Makes text from images, hosts and command lines safe to show. A name or a label can hold
//! anything: escape sequences that drive a terminal, line ends that forge a line of output,
//! direction marks that show a name backwards. One function decides which characters are shown as
//! they are; all others are escaped.

use std::fmt::Write;

/// Bytes of a name, path or label, on one line: printable characters stay, a backslash is doubled,
/// everything else is escaped (`\n`, `\x1b`, `\u{202e}`), and so are bytes that are not UTF-8
/// (`\xff`). Different bytes give different texts.
pub fn shown(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if is_plain(c) => out.push(c),
                c => escape(c, &mut out),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Makes a message safe to show; it may have several lines, and names in it that are [`shown`]
/// already.
pub fn message(text: &str) -> String {
    escaped(text, &['\n', '\t'])
}

/// Makes a text safe to show on one line: a label, a value.
pub fn line(text: &str) -> String {
    escaped(text, &[])
}

fn escaped(text: &str, kept: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_plain(c) || kept.contains(&c) {
            true => out.push(c),
            false => escape(c, &mut out),
        }
    }
    out
}

/// JSON in which these characters are escaped as JSON does it; outside of strings there are none.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || is_plain(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// True for what a terminal shows as itself: no control or format character, no separator but the
/// space, nothing unassigned or private.
fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // The table of the standard library; behind a letter, because it escapes an accent only where
    // none stands before it.
    let mut pair = [b'a'; 5];
    let len = 1 + c.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..len]).is_ok_and(|pair| pair.escape_debug().eq(pair.chars()))
}

fn escape(c: char, out: &mut String) {
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// What must never reach a terminal: Unicode's control and format characters, separators of
    /// lines, noncharacters.
    fn is_bad(c: char) -> bool {
        let bad = [
            0x00..=0x1F,
            0x7F..=0x9F,
            0xAD..=0xAD,
            0x600..=0x605,
            0x61C..=0x61C,
            0x6DD..=0x6DD,
            0x70F..=0x70F,
            0x180E..=0x180E,
            0x200B..=0x200F,
            0x2028..=0x202E,
            0x2060..=0x206F,
            0xE000..=0xF8FF,
            0xFEFF..=0xFEFF,
            0xFFF9..=0xFFFB,
            0xFFFE..=0xFFFF,
            0x1D173..=0x1D17A,
            0xE0001..=0xE007F,
        ];
        bad.iter().any(|range| range.contains(&u32::from(c)))
    }

    #[test]
    fn no_character_reaches_a_terminal_that_drives_it() {
        // Of the planes of ideographs, which have none of these, only some.
        let step = |c: &u32| !(0x3100..0xD000).contains(c) && *c < 0x1_E000 || c.is_multiple_of(61);
        let tags = 0xE_0000..0xE_0200;
        let all = (0..=0x10_FFFF).filter(step).chain(tags);
        for c in all.filter_map(char::from_u32) {
            let text = format!("x{c}y");
            let (name, told, coded) = (shown(text.as_bytes()), message(&text), json(&text));
            let line = line(&text);
            for out in [&name, &told, &line, &coded] {
                let bad = out.chars().find(|&c| is_bad(c) && c != '\n' && c != '\t');
                assert_eq!(bad, None, "{:x}", u32::from(c));
            }
            for out in [&name, &line] {
                assert!(!out.contains(['\n', '\t']), "{out}");
                assert!(!is_bad(c) || *out != text, "{out}");
            }
        }
    }

    #[test]
    fn what_is_text_stays_text() {
        for text in [
            "plain name.txt",
            "\u{c4}rger",
            "e\u{301}",
            "\u{6f22}\u{5b57}",
            "\"it's\"",
        ] {
            assert_eq!(shown(text.as_bytes()), text);
            assert_eq!(message(text), text);
        }
        assert_eq!(shown(b"a\nb\t\x1b[2J\xFF\\"), "a\\nb\\t\\x1b[2J\\xff\\\\");
        assert_eq!(shown("\u{202e}gpj.exe".as_bytes()), "\\u{202e}gpj.exe");
        assert_eq!(
            message("one\n\ttwo \x1b]0;t\x07"),
            "one\n\ttwo \\x1b]0;t\\x07"
        );
        assert_eq!(
            json("{\"a\": \"\u{202e}\u{e0001}\"}\n"),
            "{\"a\": \"\\u202e\\udb40\\udc01\"}\n"
        );
    }

    /// Bytes of a fixed random stream: two that differ are never shown the same, and what is shown
    /// is one printable line.
    #[test]
    fn what_is_shown_tells_bytes_apart() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut seen: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let pieces: [&[u8]; 9] = [
            b"a",
            b"\\",
            b"\n",
            b"\\n",
            b"\xFF",
            b"\\xff",
            "\u{202e}".as_bytes(),
            b"\\u{202e}",
            b"\xE2\x80",
        ];
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..=(state >> 7) % 4 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                bytes.extend_from_slice(pieces[(state >> 33) as usize % pieces.len()]);
            }
            let text = shown(&bytes);
            assert!(!text.chars().any(is_bad), "{text}");
            let before = seen.insert(text.clone(), bytes.clone());
            assert!(before.is_none_or(|before| before == bytes), "{text}");
        }
        assert!(seen.len() > 1000);
    }
}
