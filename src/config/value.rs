//! What a single value may be: the type of a key carries its unit, its default and its range.
//!
//! A refusal says what is allowed; file, key and the value found are added by whoever knows them.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Value;

/// Longer waits than this are cut to it, so that no sum of times can overflow; nobody lives to see it.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Shorter ones are raised to it: it is as fine as timers go, and a zero would spin.
const SHORTEST: Duration = Duration::from_millis(1);

/// Milliseconds: a positive whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Millis<const DEFAULT: u64>(pub(super) Duration);

/// Seconds: a positive number, with or without a fraction. With `ZERO`, 0 is a value of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Secs<const DEFAULT: u64, const ZERO: bool = false>(pub(super) Duration);

/// A positive whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count<const DEFAULT: u32>(pub(super) u32);

/// A whole number that may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount<const DEFAULT: u64>(pub(super) u64);

/// A TCP port that can be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Port<const DEFAULT: u16>(pub(super) u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag<const DEFAULT: bool>(pub(super) bool);

/// A text that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

/// A list of texts, empty unless set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts(pub(super) Vec<String>);

/// One word of a few.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word<C>(pub(super) C);

/// The words of a key.
pub(super) trait Choice: Copy + Default + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
    /// Words whose feature is not built.
    const LATER: &'static [&'static str];
}

/// A key whose feature is not built and that has a default: only the default is accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StillDefault<T>(std::marker::PhantomData<T>);

/// A key whose feature is not built and that has no default: its value is checked and then refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later<T>(std::marker::PhantomData<T>);

macro_rules! default_by_parameter {
    ($($kind:ident<$($parameter:ident: $of:ty),+> = $value:expr;)+) => {$(
        impl<$(const $parameter: $of),+> Default for $kind<$($parameter),+> {
            fn default() -> Self {
                Self($value)
            }
        }
    )+};
}

default_by_parameter! {
    Millis<DEFAULT: u64> = Duration::from_millis(DEFAULT);
    Secs<DEFAULT: u64, ZERO: bool> = Duration::from_secs(DEFAULT);
    Count<DEFAULT: u32> = DEFAULT;
    Amount<DEFAULT: u64> = DEFAULT;
    Port<DEFAULT: u16> = DEFAULT;
    Flag<DEFAULT: bool> = DEFAULT;
}

impl<'de, const DEFAULT: u64> Deserialize<'de> for Millis<DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::Integer(n) if n > 0 => Ok(Self(
                Duration::from_millis(n.unsigned_abs()).clamp(SHORTEST, LONGEST),
            )),
            _ => allowed("a positive whole number (milliseconds)"),
        }
    }
}

impl<'de, const DEFAULT: u64, const ZERO: bool> Deserialize<'de> for Secs<DEFAULT, ZERO> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let number = match Value::deserialize(d)? {
            #[allow(
                clippy::cast_precision_loss,
                reason = "exact up to nine quadrillion seconds"
            )]
            Value::Integer(n) => n as f64,
            Value::Float(x) => x,
            _ => f64::NAN,
        };
        if ZERO && number == 0.0 {
            return Ok(Self(Duration::ZERO));
        }
        if number.is_finite() && number > 0.0 {
            let wait = Duration::try_from_secs_f64(number).unwrap_or(LONGEST);
            return Ok(Self(wait.clamp(SHORTEST, LONGEST)));
        }
        allowed(if ZERO {
            "0 or a positive number (seconds)"
        } else {
            "a positive number (seconds)"
        })
    }
}

impl<'de, const DEFAULT: u32> Deserialize<'de> for Count<DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match whole(d)?.and_then(|n| u32::try_from(n).ok()) {
            Some(n) if n > 0 => Ok(Self(n)),
            _ => allowed("a positive whole number up to 4294967295"),
        }
    }
}

impl<'de, const DEFAULT: u64> Deserialize<'de> for Amount<DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match whole(d)?.and_then(|n| u64::try_from(n).ok()) {
            Some(n) => Ok(Self(n)),
            None => allowed("0 or a positive whole number"),
        }
    }
}

impl<'de, const DEFAULT: u16> Deserialize<'de> for Port<DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match whole(d)?.and_then(|n| u16::try_from(n).ok()) {
            Some(n) if n > 0 => Ok(Self(n)),
            _ => allowed("a port from 1 to 65535"),
        }
    }
}

impl<'de, const DEFAULT: bool> Deserialize<'de> for Flag<DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::Boolean(b) => Ok(Self(b)),
            _ => allowed("true | false"),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::String(s) if !s.is_empty() && !s.contains(char::is_control) => Ok(Self(s)),
            _ => allowed("a text that is not empty, in quotes, on one line"),
        }
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = |v: &Value| v.as_str().map(str::to_owned);
        match Value::deserialize(d)? {
            Value::Array(list) => list.iter().map(text).collect::<Option<_>>().map(Self),
            _ => None,
        }
        .map_or_else(|| allowed("a list of texts in quotes"), Ok)
    }
}

impl<'de, C: Choice> Deserialize<'de> for Word<C> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(d)?;
        let found = value.as_str().unwrap_or_default();
        if let Some((_, choice)) = C::WORDS.iter().find(|(word, _)| *word == found) {
            return Ok(Self(*choice));
        }
        let built = C::WORDS.iter().map(|(word, _)| *word);
        if C::LATER.contains(&found) {
            return Err(D::Error::custom(not_yet(&quoted(built))));
        }
        allowed(&quoted(built.chain(C::LATER.iter().copied())))
    }
}

impl<'de, T> Deserialize<'de> for StillDefault<T>
where
    T: Deserialize<'de> + Default + PartialEq + fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if T::deserialize(d)? == T::default() {
            return Ok(Self(std::marker::PhantomData));
        }
        Err(D::Error::custom(not_yet(&T::default().to_string())))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Later<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        T::deserialize(d)?;
        Err(D::Error::custom(
            "not yet: this version cannot do it; leave the key out",
        ))
    }
}

impl<const DEFAULT: u64> fmt::Display for Millis<DEFAULT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_millis().fmt(f)
    }
}

impl<const DEFAULT: u64, const ZERO: bool> fmt::Display for Secs<DEFAULT, ZERO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_secs_f64().fmt(f)
    }
}

impl<const DEFAULT: u64> fmt::Display for Amount<DEFAULT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const DEFAULT: bool> fmt::Display for Flag<DEFAULT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// `allowed is …`, the tail of every refusal of a value.
pub(super) fn allowed<T, E: serde::de::Error>(what: &str) -> Result<T, E> {
    Err(E::custom(format_args!("allowed is {what}")))
}

fn not_yet(allowed: &str) -> String {
    format!("not yet; allowed is {allowed}")
}

fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words
        .map(|word| format!("{word:?}"))
        .collect::<Vec<_>>()
        .join(" | ")
}

fn whole<'de, D: Deserializer<'de>>(d: D) -> Result<Option<i64>, D::Error> {
    Ok(Value::deserialize(d)?.as_integer())
}
