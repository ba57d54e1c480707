//! Provider `postgres`: a node's own PostgreSQL says whether it is in recovery, and on which timeline it writes.

use std::sync::Arc;
use std::time::Duration;

use super::answer::{Answer, Role, State};
use super::kept::{Keeper, Kept, Look};
use super::source::{Observe, Told};
use super::{NoAnswer, Place};
use crate::backend::{Link, LinkError, LoginSettings};

/// How PostgreSQL is asked, for all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeSettings {
    pub(crate) login: LoginSettings,
    /// At rest each node is asked so often.
    pub(crate) poll_interval: Duration,
}

/// Asks one node's PostgreSQL. A statement that fails hides no other: each is sent by itself.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    keeper: Keeper,
}

impl Probe {
    pub(super) fn new(keeper: Keeper) -> Self {
        Self { keeper }
    }
}

impl Observe for Probe {
    async fn observe(&self, place: Place) -> Result<Told, NoAnswer> {
        self.keeper.ask(place, &Recovery).await
    }
}

/// Whether it is in recovery, and where it is.
struct Recovery;

impl Look for Recovery {
    async fn look(&self, kept: &Kept) -> Result<Answer, NoAnswer> {
        let statement = "SELECT pg_is_in_recovery()";
        let found = kept.link.value(statement).await?;
        let mut answer = match found.as_deref() {
            Some("f") => writable(&kept.link).await?,
            Some("t") => in_recovery(&kept.link).await?,
            _ => return Err(NoAnswer::Odd { statement }),
        };
        answer.system_identifier.clone_from(&kept.identifier);
        Ok(answer)
    }
}

async fn writable(link: &Link) -> Result<Answer, NoAnswer> {
    let timeline = timeline(link).await?;
    let mut answer = Answer::of(200, Role::Primary, State::Running);
    let words = match &timeline {
        Ok(timeline) => format!("pg_is_in_recovery() = false, timeline {timeline}"),
        Err(why) => format!("pg_is_in_recovery() = false, timeline unreadable: {why}"),
    };
    answer.words = Some(words.into());
    answer.timeline = timeline.ok();
    answer.position = position(link, "SELECT pg_current_wal_lsn()").await?;
    Ok(answer)
}

/// The timeline that is written to now, or the words why it cannot be told. The name of the WAL file is current
/// from the first moment after a promotion and needs no privilege; the last checkpoint may be older.
async fn timeline(link: &Link) -> Result<Result<u32, Arc<str>>, NoAnswer> {
    let statement = "SELECT pg_walfile_name(pg_current_wal_lsn())";
    let file = spoken(link.value(statement).await)?;
    if let Some(timeline) = file.ok().flatten().and_then(|name| of_file(&name)) {
        return Ok(Ok(timeline));
    }
    let statement = "SELECT timeline_id FROM pg_control_checkpoint()";
    Ok(match spoken(link.value(statement).await)? {
        Ok(found) => {
            let timeline = found.and_then(|t| t.parse().ok()).filter(|t| *t > 0);
            timeline.ok_or_else(|| "pg_control_checkpoint() names none".into())
        }
        Err(said) => Err(said.to_string().into()),
    })
}

async fn in_recovery(link: &Link) -> Result<Answer, NoAnswer> {
    let mut answer = Answer::of(503, Role::Replica, State::Running);
    answer.words = Some("pg_is_in_recovery() = true".into());
    answer.position = position(link, "SELECT pg_last_wal_replay_lsn()").await?;
    let receiver = spoken(
        link.row("SELECT status, received_tli FROM pg_stat_wal_receiver")
            .await,
    )?;
    if let Ok(row) = receiver {
        let column = |i: usize| row.get(i).and_then(Option::as_deref);
        answer.replication_state = match column(0) {
            Some(status) => Some(status.into()),
            // No row: nothing is received. A row without a status: it is told to members of pg_monitor only.
            None => row.is_empty().then(|| "not streaming".into()),
        };
        answer.timeline = column(1).and_then(|timeline| timeline.parse().ok());
    }
    Ok(answer)
}

/// Where a server has no such function, or tells it to others only, the position is unknown.
async fn position(link: &Link, statement: &str) -> Result<Option<u64>, NoAnswer> {
    let found = spoken(link.value(statement).await)?;
    Ok(found.ok().flatten().and_then(|lsn| of_lsn(&lsn)))
}

/// An error that the server puts into words is an answer, if not the one that was hoped for; without words there is
/// nobody to go on asking.
fn spoken<T>(answer: Result<T, LinkError>) -> Result<Result<T, LinkError>, NoAnswer> {
    match answer {
        Ok(_) | Err(LinkError::Said { .. }) => Ok(answer),
        Err(error) => Err(error.into()),
    }
}

/// `000000050000000A000000FF` is of timeline 5.
fn of_file(name: &str) -> Option<u32> {
    let (timeline, rest) = name.split_at_checked(8)?;
    let timeline = u32::from_str_radix(timeline, 16).ok()?;
    (rest.len() == 16 && timeline > 0).then_some(timeline)
}

/// `A/FF000028` as a number of bytes.
fn of_lsn(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let half = |digits| u32::from_str_radix(digits, 16).map(u64::from).ok();
    Some(half(high)? << 32 | half(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_the_first_eight_hex_digits_of_a_wal_file() {
        assert_eq!(of_file("000000050000000A000000FF"), Some(5));
        assert_eq!(of_file("0000001F0000000000000001"), Some(31));
        for odd in [
            "",
            "00000005",
            "000000000000000A000000FF",
            "0000000é0000000A000000FF",
            "x",
        ] {
            assert_eq!(of_file(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_position_is_a_number_of_bytes() {
        assert_eq!(of_lsn("0/5000148"), Some(0x500_0148));
        assert_eq!(of_lsn("A/FF000028"), Some(0xA_FF00_0028));
        for odd in ["", "5", "/", "1/100000000", "0/x"] {
            assert_eq!(of_lsn(odd), None, "{odd}");
        }
    }
}
