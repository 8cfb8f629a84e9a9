//! Where clients of NBD connect.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port that is registered for NBD.
const PORT: u16 = 10809;

/// A place to listen at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// `unix:PATH`, or anything with a slash: a Unix socket.
    Unix(PathBuf),
    /// `HOST`, `HOST:PORT` or `[HOST]:PORT`: TCP.
    Tcp(String, u16),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let text = text.strip_prefix("nbd://").unwrap_or(text);
        let text = text.trim_end_matches(|c| c == '/' && !text.starts_with('/'));
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("unix: without a path".into()),
                path => Ok(Address::Unix(path.into())),
            };
        }
        if text.contains('/') {
            return Ok(Address::Unix(text.into()));
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (
                host,
                port.strip_prefix(':')
                    .or(Some(port).filter(|p| p.is_empty())),
            ),
            None => match text.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                // More than one colon: an address of IPv6.
                _ => (text, Some("")),
            },
        };
        let port = match port {
            Some("") => Some(PORT),
            Some(port) => port.parse().ok(),
            None => None,
        };
        match port {
            Some(port) if !host.is_empty() => Ok(Address::Tcp(host.into(), port)),
            _ => Err(format!("{text}: say HOST, HOST:PORT or unix:PATH")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back() {
        for (text, full) in [
            ("unix:/a", "unix:/a"),
            ("/a/b", "unix:/a/b"),
            ("./a", "unix:./a"),
            ("localhost", "localhost:10809"),
            ("localhost:1", "localhost:1"),
            ("::1", "[::1]:10809"),
            ("[::1]:7", "[::1]:7"),
            ("nbd://localhost:7/", "localhost:7"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), full, "{text}");
            assert_eq!(full.parse(), Ok(address), "{text}");
        }
        for wrong in ["", ":7", "a:b", "unix:", "a:70000", "[::1]7"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
