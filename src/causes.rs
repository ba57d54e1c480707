//! An error told with everything behind it.

use std::error::Error;

/// An error and its causes on one line: `a: b: c`.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut behind = error.source();
    while let Some(source) = behind {
        let more = source.to_string();
        // Some errors repeat their source in their own words.
        if !words.ends_with(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        behind = source.source();
    }
    words.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Told {
        words: &'static str,
        source: Option<Box<Told>>,
    }

    fn told(words: &'static str, source: Option<Told>) -> Told {
        let source = source.map(Box::new);
        Told { words, source }
    }

    #[test]
    fn an_error_is_told_with_its_causes_on_one_line() {
        let cause = told("cannot be read", Some(told("no such\nthing", None)));

        assert_eq!(
            chain(&told("a.toml", Some(cause))),
            "a.toml: cannot be read: no such thing"
        );
    }

    #[test]
    fn what_an_error_has_said_itself_is_not_said_twice() {
        let cause = told("no such thing", None);

        assert_eq!(
            chain(&told("a.toml: no such thing", Some(cause))),
            "a.toml: no such thing"
        );
    }
}
