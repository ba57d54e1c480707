//! A wall-clock time in the words of RFC 3339: `2026-11-30T10:15:00.250Z`.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds are enough to sort log lines by; times before 1970 do not occur and show as 1970.
pub(super) fn in_words(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

/// Days since 1970-01-01 as a date. Years are counted from March, so that the leap day is the last one.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let era = days / 146_097; // of 400 years
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // 0 = March
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> String {
        in_words(UNIX_EPOCH + Duration::from_millis(ms))
    }

    #[test]
    fn known_moments_are_told_as_date_says_them() {
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_827_696_789), "2000-02-29T12:34:56.789Z");
        assert_eq!(at(1_798_761_599_999), "2026-12-31T23:59:59.999Z");
        assert_eq!(at(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn every_day_for_four_hundred_years_follows_the_one_before() {
        let length = |year: u64, month| match month {
            2 if year.is_multiple_of(4)
                && (!year.is_multiple_of(100) || year.is_multiple_of(400)) =>
            {
                29
            }
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut expected = (1970, 1, 1);
        for days in 0..146_097 {
            assert_eq!(civil(days), expected);
            let (year, month, day) = expected;
            expected = match (month, day < length(year, month)) {
                (_, true) => (year, month, day + 1),
                (12, false) => (year + 1, 1, 1),
                (_, false) => (year, month + 1, 1),
            };
        }
    }
}
