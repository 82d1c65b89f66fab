//! The macro behind every closed set of words: one spelling in code, SQL, API and command line.

/// A word that is not in its closed set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {} {set}; use one of: {allowed}", article(.set))]
pub struct UnknownWord {
    /// Which closed set was asked.
    pub set: &'static str,
    /// What was given, cut to a readable length.
    pub given: String,
    /// The words of the set, for the message.
    pub allowed: String,
}

/// The article in front of a word.
fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// Builds the error; only the macro calls it.
#[doc(hidden)]
pub fn unknown_word(set: &'static str, given: &str, allowed: &[&str]) -> UnknownWord {
    UnknownWord { set, given: given.chars().take(64).collect(), allowed: allowed.join(", ") }
}

/// Declares an enum whose variants are words, with `as_str`, `FromStr`, `Display`, serde and `ALL`.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident as $set:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )+ }

        impl $name {
            /// Every word of the set, in the order of its definition.
            pub const ALL: &'static [$name] = &[ $( $name::$variant, )+ ];

            /// The one spelling of this word.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $word, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;
            fn from_str(given: &str) -> Result<Self, Self::Err> {
                match given {
                    $( $word => Ok($name::$variant), )+
                    _ => Err($crate::words::unknown_word($set, given, &[ $( $word, )+ ])),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                word.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use words;
