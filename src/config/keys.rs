//! Help for a key that does not exist: the near one, the table it belongs to, and all that are allowed.

use super::read;

/// The tables of the file, as they are opened.
const TABLES: [&str; 6] = [
    "[[listeners]]",
    "[health]",
    "[topology]",
    "[rest]",
    "[backend]",
    "[[nodes]]",
];

/// What to say about `key` (with its table), where its table has `allowed`.
pub(super) fn advice(key: &str, allowed: &[String]) -> String {
    let (table, word) = key.rsplit_once('.').unwrap_or(("", key));
    let mut advice = String::new();
    if let Some(near) = nearest(word, allowed) {
        advice = format!("did you mean {near}? ");
    } else if let Some(home) = home_of(word, table) {
        advice = format!("it belongs {home}; ");
    }
    let place = if table.is_empty() {
        "at the top level".to_owned()
    } else {
        format!("in {table}")
    };
    format!("{advice}allowed {place}: {}", allowed.join(", "))
}

/// The key that was meant: the same but for its unit, else one that is a few letters away.
fn nearest<'a>(word: &str, allowed: &'a [String]) -> Option<&'a str> {
    let same_but_unit = |key: &&String| stem(key) == stem(word);
    let few = (word.len() / 3).clamp(1, 3);
    allowed
        .iter()
        .find(same_but_unit)
        .or_else(|| {
            let close = |key: &&String| distance(word, key) <= few;
            allowed
                .iter()
                .filter(close)
                .min_by_key(|key| distance(word, key))
        })
        .map(String::as_str)
}

/// Where else the key exists. TOML's own trap: a top-level key written below a table belongs to that table.
fn home_of(word: &str, found_in: &str) -> Option<String> {
    let has = |header: &str| read::keys_of(header).iter().any(|key| key == word);
    if !found_in.is_empty() && has("") {
        return Some("at the top level, above the first table".to_owned());
    }
    TABLES
        .iter()
        .find(|header| has(header))
        .map(|header| format!("to {header}"))
}

/// The key without its unit.
fn stem(key: &str) -> &str {
    ["_ms", "_secs", "_seconds", "_s", "_bytes", "_minutes"]
        .iter()
        .find_map(|unit| key.strip_suffix(unit))
        .unwrap_or(key)
}

/// Levenshtein's: how many letters must be added, removed or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<String> {
        ["check_interval_ms", "check_timeout_ms", "fast_interval_ms"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn a_key_with_another_unit_is_recognised() {
        let advice = advice("health.check_interval_secs", &allowed());

        assert!(
            advice.starts_with(
                "did you mean check_interval_ms? allowed in health: check_interval_ms, "
            ),
            "{advice}"
        );
    }

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        assert_eq!(
            nearest("check_tiemout_ms", &allowed()),
            Some("check_timeout_ms")
        );
        assert_eq!(nearest("colour", &allowed()), None);
    }

    #[test]
    fn a_key_of_another_table_is_sent_home() {
        let advice_for = |key| advice(key, &["name".to_owned()]);

        assert!(
            advice_for("nodes[0].admin_address")
                .contains("at the top level, above the first table")
        );
        assert!(advice_for("lease_timeout_secs").contains("it belongs to [topology]"));
    }

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
