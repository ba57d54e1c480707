//! The limit on open files: raised as far as allowed, and said when it is still too low.

use crate::net::descriptor_limit;

/// For everything that is no session: listeners, questions to nodes, the admin API, logs.
const OWN: u64 = 100;

/// Makes room for `max_connections` sessions of two sockets each. Answers with a warning if there is not enough.
pub(super) fn make_room(max_connections: usize) -> Option<String> {
    let wanted = u64::try_from(max_connections)
        .unwrap_or(u64::MAX)
        .saturating_mul(2)
        .saturating_add(OWN);
    warning(max_connections, wanted, descriptor_limit().ok()?)
}

fn warning(max_connections: usize, wanted: u64, limit: u64) -> Option<String> {
    let sessions = limit.saturating_sub(OWN) / 2;
    (limit < wanted).then(|| {
        format!(
            "max_connections = {max_connections}: the limit of {limit} open files is enough for {sessions} (LimitNOFILE={wanted})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_said_with_what_it_is_enough_for() {
        assert_eq!(
            warning(10_000, 20_100, 1024).as_deref(),
            Some(
                "max_connections = 10000: the limit of 1024 open files is enough for 462 (LimitNOFILE=20100)"
            )
        );
        assert_eq!(warning(10, 120, 120), None);
    }
}
