//! The members of a JSON object, each as its text in the file.
//!
//! A vector holds texts that must reach the library unchanged: a repeated name, half of a surrogate pair, an odd number.
//! `serde_json` has a type for that behind a feature, but the feature changes how every `Value` in the whole binary is
//! read: an object with one reserved name is replaced by the JSON in its text, so the checked value is not the one that runs.

use std::collections::HashMap;

use serde::de::{Deserialize, IgnoredAny};

/// An object, each member with its own text. Names are unique.
#[derive(Debug, Default)]
pub(crate) struct MemberTexts<'a>(HashMap<String, &'a str>);

impl<'a> MemberTexts<'a> {
    /// Splits an object that is the whole text. The text must be valid JSON.
    pub(crate) fn split(text: &'a str) -> Result<Self, String> {
        let mut members = HashMap::new();
        let mut rest = text.trim_ascii().strip_prefix('{').ok_or("not an object")?.trim_ascii_start();
        while rest != "}" {
            let (name, after) = take::<String>(rest)?;
            let value = after.trim_ascii_start().strip_prefix(':').ok_or("a name without a value")?;
            let value = value.trim_ascii_start();
            let (IgnoredAny, after) = take(value)?;
            let own = value.strip_suffix(after).unwrap_or_default();
            if members.insert(name, own).is_some() {
                return Err("a name stands twice".to_owned());
            }
            let after = after.trim_ascii_start();
            rest = after.strip_prefix(',').unwrap_or(after).trim_ascii_start();
        }
        Ok(Self(members))
    }

    /// The text of a member.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied()
    }

    /// A member that is an object, split; empty if it is missing or `null`.
    pub(crate) fn object(&self, name: &str) -> Result<Self, String> {
        self.text(name).filter(|text| *text != "null").map_or_else(|| Ok(Self::default()), Self::split)
    }
}

/// Reads one value from the front, and returns it with the text after it.
fn take<'a, T: Deserialize<'a>>(text: &'a str) -> Result<(T, &'a str), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    let value = values.next().ok_or("it ends too early")?.map_err(|error| error.to_string())?;
    Ok((value, text.get(values.byte_offset()..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::MemberTexts;

    #[test]
    fn members_keep_their_text() {
        let text =
            " {\"a\" : {\"x\":1,\"x\":2.0} ,\n\"b\\u0063\":\"\\ud800}\", \"d\":-1e400,\"e\":null,\"f\":[ ]} ";
        let spans = MemberTexts::split(text).unwrap();
        let told = ["a", "bc", "d", "e", "f", "x"].map(|name| spans.text(name));
        let own = ["{\"x\":1,\"x\":2.0}", "\"\\ud800}\"", "-1e400", "null", "[ ]"];
        assert_eq!(told[..5], own.map(Some));
        assert_eq!(told[5], None);
        assert!(MemberTexts::split("{}").unwrap().text("a").is_none());
        assert!(spans.object("e").unwrap().text("a").is_none());
    }

    #[test]
    fn what_is_no_object_or_says_a_name_twice_is_refused() {
        for text in [
            "",
            "[]",
            "1",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"\\u0061\":2}",
            "{\"a\" 1}",
            "{\"a\":1",
            "{\"a\":",
        ] {
            assert!(MemberTexts::split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_name_is_special_to_the_reader_of_values() {
        for name in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
            let text = format!("{{\"{name}\":\"1\"}}");
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value.to_string(), text, "a feature of `serde_json` is on that must be off");
        }
    }
}
