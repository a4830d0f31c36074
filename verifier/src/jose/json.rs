//! JSON of tokens, read strictly and in one pass: no member twice in any object at any level, depth bounded, wrong types told apart from
//! wrong syntax.
//!
//! A reader of a claim says which types it takes ([`FromJson`]); every other value is read to its end all the same, so that a claim of
//! the wrong type is a fact about the claim and not a syntax error.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// What JSON values mean to a reader. By default all are of the wrong type.
pub(crate) trait FromJson<'de>: Sized {
    /// Any type that is not taken.
    fn other() -> Self;

    /// A text.
    fn text(_: Cow<'de, str>) -> Self {
        Self::other()
    }

    /// A number; `None` when it is negative, not finite or beyond the year 9999. Fractions are cut off.
    fn number(_: Option<i64>) -> Self {
        Self::other()
    }

    /// An array; must be read to its end.
    fn array<A: SeqAccess<'de>>(mut elements: A) -> Result<Self, A::Error> {
        while elements.next_element::<Value<Anything>>()?.is_some() {}
        Ok(Self::other())
    }

    /// An object; must be read to its end with [`members`].
    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        members(&mut map, |_, _| Ok(false))?;
        Ok(Self::other())
    }
}

/// A member that may be missing or of the wrong type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Claim<T> {
    /// Not there.
    #[default]
    Absent,
    /// There, but not what it must be.
    Wrong,
    /// There.
    Is(T),
}

impl<T> Claim<T> {
    /// The value of a claim that must be there.
    pub(crate) const fn required(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Wrong => None,
        }
    }
}

impl<'de> FromJson<'de> for Claim<Box<str>> {
    fn other() -> Self {
        Self::Wrong
    }

    fn text(text: Cow<'de, str>) -> Self {
        Self::Is(text.into())
    }
}

impl FromJson<'_> for Claim<i64> {
    fn other() -> Self {
        Self::Wrong
    }

    fn number(number: Option<i64>) -> Self {
        number.map_or(Self::Wrong, Self::Is)
    }
}

/// Reads any value and keeps nothing.
pub(crate) struct Anything;

impl FromJson<'_> for Anything {
    fn other() -> Self {
        Self
    }
}

/// Reads the members of an object: `known` reads the value of a name it knows and says so; other values are read to their end.
/// A name that comes twice is an error, known or not.
pub(crate) fn members<'de, A: MapAccess<'de>>(
    map: &mut A,
    mut known: impl FnMut(&str, &mut A) -> Result<bool, A::Error>,
) -> Result<(), A::Error> {
    let mut names = Vec::new();
    while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
        if !known(&name, map)? {
            map.next_value::<Value<Anything>>()?;
        }
        names.push(name);
    }
    if one_comes_twice(names) {
        return Err(de::Error::custom("a member comes twice"));
    }
    Ok(())
}

fn one_comes_twice(mut names: Vec<Cow<'_, str>>) -> bool {
    names.sort_unstable();
    names.array_windows().any(|[one, next]| one == next)
}

/// Reads one JSON object and nothing after it.
pub(crate) fn read_object<'de, T: FromJson<'de>>(text: &'de [u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(text).map_err(|_| de::Error::custom("not UTF-8"))?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(de::Error::custom("not an object"));
    }
    serde_json::from_str::<Value<T>>(text).map(|value| value.0)
}

/// A value as its reader sees it.
pub(crate) struct Value<T>(pub(crate) T);

impl<'de, T: FromJson<'de>> Deserialize<'de> for Value<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor(PhantomData)).map(Self)
    }
}

struct ValueVisitor<T>(PhantomData<T>);

impl<'de, T: FromJson<'de>> Visitor<'de> for ValueVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::other())
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::other())
    }

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(T::number(in_range(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok(T::number(i64::try_from(number).ok().and_then(in_range)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        // In range the cast cuts off the fraction and nothing else.
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
        let whole = (0.0..LATEST_F64).contains(&number).then_some(number as i64);
        Ok(T::number(whole))
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T, E> {
        Ok(T::text(Cow::Borrowed(text)))
    }

    fn visit_string<E>(self, text: String) -> Result<T, E> {
        Ok(T::text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<T, A::Error> {
        T::array(elements)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::object(map)
    }
}

/// The year 9999 ends here, see [`crate::UnixTime::MAX`].
const LATEST: i64 = crate::UnixTime::MAX.secs();
const LATEST_F64: f64 = 253_402_300_800.0;

fn in_range(number: i64) -> Option<i64> {
    (0..=LATEST).contains(&number).then_some(number)
}

/// A member's name; borrows where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }
            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &str) -> bool {
        read_object::<Anything>(text.as_bytes()).is_ok()
    }

    #[test]
    fn duplicates_at_any_level_are_refused() {
        for good in [
            "{}",
            r#" {"a":1,"b":[{"a":1},{"a":1}],"c":{"a":{"a":null}}} "#,
            r#"{"a":1,"A":1,"a ":1,"":1}"#,
            r#"{"a":[true,1.5e3,-2,"\u00e9","é",[]]}"#,
        ] {
            assert!(reads(good), "{good}");
        }
        for bad in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"a":3}"#,
            r#"{"a":1,"\u0061":1}"#,
            r#"{"":1,"":1}"#,
            r#"{"x":{"a":1,"a":1}}"#,
            r#"{"x":[[{"y":{"a":1,"a":1}}]]}"#,
        ] {
            assert!(!reads(bad), "{bad}");
        }
    }

    #[test]
    fn only_one_object_and_nothing_else() {
        for bad in [
            "",
            " ",
            "null",
            "[]",
            "[{}]",
            "1",
            "\"{}\"",
            "{",
            "{}{}",
            "{} x",
            "{},",
            "{\"a\":1,}",
            "{a:1}",
            "{'a':1}",
            "\u{feff}{}",
            "{\"a\":NaN}",
            "{\"a\":1e999}",
            "{\"a\":01}",
            "{\"a\":+1}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":1}\0",
            "/**/{}",
        ] {
            assert!(!reads(bad), "{bad}");
        }
        assert!(read_object::<Anything>(b"{\"\xff\":1}").is_err());
        assert!(read_object::<Anything>(b"{\"a\":\"\xc0\x80\"}").is_err());
    }

    /// CHECKS K1: depth bounded, without a stack overflow on the way.
    #[test]
    fn depth_is_bounded() {
        let nest = |open: &str, close: &str, depth: usize| {
            format!(r#"{{"x":{}1{}}}"#, open.repeat(depth), close.repeat(depth))
        };
        assert!(reads(&nest("[", "]", 20)));
        for depth in [200, 20_000, 500_000] {
            assert!(!reads(&nest("[", "]", depth)));
            assert!(!reads(&nest("{\"a\":", "}", depth)));
        }
    }

    #[test]
    fn many_members_cost_little() {
        let text: Vec<String> = (0..100_000).map(|n| format!("\"{n}\":0")).collect();
        assert!(reads(&format!("{{{}}}", text.join(","))));
    }

    #[test]
    fn numeric_dates() {
        #[derive(Debug, PartialEq)]
        struct Date(Claim<i64>);
        impl<'de> FromJson<'de> for Date {
            fn other() -> Self {
                Self(Claim::Absent)
            }
            fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
                let mut date = Self(Claim::Absent);
                members(&mut map, |name, map| {
                    if name == "exp" {
                        date.0 = map.next_value::<Value<_>>()?.0;
                    }
                    Ok(name == "exp")
                })?;
                Ok(date)
            }
        }
        let read = |value: &str| read_object::<Date>(format!("{{\"exp\":{value}}}").as_bytes()).unwrap().0;
        for (text, date) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("1790000000", 1_790_000_000),
            ("1790000000.9", 1_790_000_000),
            ("1.79e9", 1_790_000_000),
            ("253402300799", LATEST),
            ("253402300799.5", LATEST),
        ] {
            assert_eq!(read(text), Claim::Is(date), "{text}");
        }
        for text in [
            "-1",
            "-1790000000",
            "-0.5",
            "253402300800",
            "253402300800.0",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "1e300",
            "\"1790000000\"",
            "null",
            "true",
            "[1790000000]",
            "{\"a\":1}",
        ] {
            assert_eq!(read(text), Claim::Wrong, "{text}");
        }
    }
}
