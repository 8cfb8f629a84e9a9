//! Getters and setters for integers at fixed offsets of a raw structure, and sets of feature bits.

use base::bytes as b;

/// An integer that can be read and written at a byte offset.
pub(crate) trait Int: Copy {
    fn le(buf: &[u8], at: usize) -> Self;
    fn put_le(self, buf: &mut [u8], at: usize);
    fn be(buf: &[u8], at: usize) -> Self;
    fn put_be(self, buf: &mut [u8], at: usize);
}

macro_rules! int {
    ($ty:ty, $le:ident, $ple:ident, $be:ident, $pbe:ident) => {
        impl Int for $ty {
            fn le(buf: &[u8], at: usize) -> Self {
                b::$le(buf, at)
            }
            fn put_le(self, buf: &mut [u8], at: usize) {
                b::$ple(buf, at, self);
            }
            fn be(buf: &[u8], at: usize) -> Self {
                b::$be(buf, at)
            }
            fn put_be(self, buf: &mut [u8], at: usize) {
                b::$pbe(buf, at, self);
            }
        }
    };
}
int!(u16, get_le16, put_le16, get_be16, put_be16);
int!(u32, get_le32, put_le32, get_be32, put_be32);
int!(u64, get_le64, put_le64, get_be64, put_be64);

impl Int for u8 {
    fn le(buf: &[u8], at: usize) -> Self {
        buf[at]
    }
    fn put_le(self, buf: &mut [u8], at: usize) {
        buf[at] = self;
    }
    fn be(buf: &[u8], at: usize) -> Self {
        buf[at]
    }
    fn put_be(self, buf: &mut [u8], at: usize) {
        buf[at] = self;
    }
}

/// `get / set: type @ offset, "kernel name", "meaning";` for a type with a `raw` byte buffer.
macro_rules! fields {
    (@ $get_fn:ident $put_fn:ident; $($get:ident / $set:ident: $ty:ty, $off:literal, $kernel:literal, $doc:literal;)*) => {
        $(
            #[doc = concat!($doc, " (`", $kernel, "`, offset ", stringify!($off), ").")]
            pub fn $get(&self) -> $ty {
                <$ty as crate::field::Int>::$get_fn(&self.raw[..], $off)
            }
            #[doc = concat!("Sets `", $kernel, "`; see [`", stringify!($get), "`](Self::", stringify!($get), ").")]
            pub fn $set(&mut self, value: $ty) {
                <$ty as crate::field::Int>::$put_fn(value, &mut self.raw[..], $off);
            }
        )*
    };
    (le; $($rest:tt)*) => { crate::field::fields! { @ le put_le; $($rest)* } };
    (be; $($rest:tt)*) => { crate::field::fields! { @ be put_be; $($rest)* } };
}
pub(crate) use fields;

/// A newtype around a word of feature bits with named constants and the names that people read.
macro_rules! bit_set {
    ($(#[$meta:meta])* $name:ident: $int:ty, $prefix:literal { $($(#[$doc:meta])* $flag:ident = $bit:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $int);

        impl $name {
            $( $(#[$doc])* #[doc = concat!("Printed as `", $text, "`.")] pub const $flag: $name = $name($bit); )*

            /// No bit.
            pub const NONE: $name = $name(0);
            /// Every bit that has a name here.
            pub const KNOWN: $name = $name(0 $(| $bit)*);

            /// True if all bits of `other` are set.
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }
            /// With the bits of `other`.
            #[must_use]
            pub const fn with(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
            /// Without the bits of `other`.
            #[must_use]
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }
            /// True if no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
            /// The names of the set bits, lowest bit first; a bit without a name gets the prefix of
            /// its word and its number.
            pub fn names(self) -> Vec<String> {
                let known: &[($int, &str)] = &[$(($bit, $text)),*];
                (0..<$int>::BITS)
                    .map(|n| (n, (1 as $int) << n))
                    .filter(|&(_, bit)| self.0 & bit != 0)
                    .map(|(n, bit)| match known.iter().find(|(b, _)| *b == bit) {
                        Some((_, text)) => (*text).to_string(),
                        None => format!(concat!($prefix, "{}"), n),
                    })
                    .collect()
            }
            /// The bit called `name`, if there is one.
            pub fn by_name(name: &str) -> Option<$name> {
                match name {
                    $($text => Some($name::$flag),)*
                    _ => None,
                }
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name {
                self.with(other)
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.names().join(" "))
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:#x}: {})", stringify!($name), self.0, self)
            }
        }
    };
}
pub(crate) use bit_set;
