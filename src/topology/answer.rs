//! What a Patroni node says of itself: a pure reading of status line, Date and body.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

/// The usable part of an answer. Whatever is missing, of an odd type or unknown is left out: one odd field must
/// not hide a good leader.
///
/// Source: Patroni documentation, "REST API"; recorded answers in `tests/fixtures/patroni`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) role: Option<Role>,
    pub(crate) state: Option<State>,
    pub(crate) timeline: Option<u32>,
    pub(crate) system_identifier: Option<Arc<str>>,
    pub(crate) scope: Option<Arc<str>>,
    /// Nobody holds the leader key, as this node sees it.
    pub(crate) unlocked: bool,
    pub(crate) failsafe: bool,
    pub(crate) paused: bool,
    /// Patroni's last successful contact with the DCS, in seconds of the node's own clock.
    pub(crate) dcs_last_seen: Option<u64>,
    /// The `Date` header, in seconds of the node's own clock.
    pub(crate) date: Option<u64>,
    /// WAL position in bytes: written at a primary, replayed at a replica.
    pub(crate) position: Option<u64>,
    /// How a replica gets its WAL, in Patroni's words; before 3.0.4 it never says.
    pub(crate) replication_state: Option<Arc<str>>,
    /// Tagged to serve no reads.
    pub(crate) noloadbalance: bool,
    /// Patroni's own version.
    pub(crate) version: Option<[u32; 3]>,
    /// What was really asked and heard, where that was not Patroni.
    pub(crate) words: Option<Arc<str>>,
}

/// How a running replica gets its WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feed {
    Streaming,
    Archive,
    /// From nowhere: its upstream is gone, as in every failover.
    Dry,
}

/// Patroni's role words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `primary`, or `master` before Patroni 4.
    Primary,
    Replica,
    StandbyLeader,
    Other(Arc<str>),
}

impl Role {
    fn read(word: &str) -> Self {
        match word {
            "primary" | "master" => Self::Primary,
            "replica" => Self::Replica,
            "standby_leader" => Self::StandbyLeader,
            other => Self::Other(other.into()),
        }
    }

    /// The last two are words of `/cluster`.
    pub(crate) fn is_replica(&self) -> bool {
        match self {
            Self::Replica => true,
            Self::Other(word) => matches!(&**word, "sync_standby" | "quorum_standby"),
            Self::Primary | Self::StandbyLeader => false,
        }
    }

    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::StandbyLeader => "standby_leader",
            Self::Other(word) => word,
        }
    }
}

/// Patroni's state words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// Patroni's own SQL failed.
    Unknown,
    Other(Arc<str>),
}

impl State {
    fn read(word: &str) -> Self {
        match word {
            "running" => Self::Running,
            "unknown" => Self::Unknown,
            other => Self::Other(other.into()),
        }
    }

    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Running => "running",
            Self::Unknown => "unknown",
            Self::Other(word) => word,
        }
    }
}

impl Answer {
    /// `None` when the body is not Patroni's: not a JSON object, or one with neither a role nor a state.
    pub(crate) fn read(status: u16, date: Option<&str>, body: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(body);
        let said = Members::read(&text)?;
        let role = said.word("role").as_deref().map(Role::read);
        let state = said.word("state").as_deref().map(State::read);
        if role.is_none() && state.is_none() {
            return None;
        }
        let flag = |key| said.value(key).and_then(|v| v.as_bool()).unwrap_or(false);
        Some(Self {
            status,
            role,
            state,
            timeline: said.timeline(),
            system_identifier: said.identifier(),
            scope: said
                .object("patroni")
                .and_then(|p| p.word("scope"))
                .map(Arc::from),
            unlocked: flag("cluster_unlocked"),
            failsafe: flag("failsafe_mode_is_active"),
            paused: flag("pause"),
            dcs_last_seen: said.number("dcs_last_seen"),
            date: date
                .and_then(|d| httpdate::parse_http_date(d).ok())
                .and_then(|d| d.duration_since(std::time::UNIX_EPOCH).ok())
                .map(|d| d.as_secs()),
            position: said.object("xlog").and_then(|x| {
                x.number("location")
                    .or_else(|| x.number("replayed_location"))
            }),
            replication_state: said.word("replication_state").map(Arc::from),
            noloadbalance: said
                .object("tags")
                .and_then(|tags| tags.value("noloadbalance"))
                .is_some_and(|tag| is_set(&tag)),
            version: said
                .object("patroni")
                .and_then(|p| p.word("version"))
                .and_then(|version| version_numbers(&version)),
            words: None,
        })
    }

    /// How the node gets its WAL, where it is a replica that runs.
    pub(crate) fn feed(&self) -> Option<Feed> {
        if !self.role.as_ref().is_some_and(Role::is_replica) {
            return None;
        }
        let word = match self.state.as_ref()? {
            State::Running => self.replication_state.as_deref(),
            // `/cluster` has one word for both.
            State::Other(word) if [STREAMING, ARCHIVE].contains(&&**word) => Some(&**word),
            State::Unknown | State::Other(_) => return None,
        };
        Some(match word {
            Some(STREAMING) => Feed::Streaming,
            Some(ARCHIVE) => Feed::Archive,
            Some(_) => Feed::Dry,
            None if self.version.is_some_and(|version| version >= SAYS) => Feed::Dry,
            // Who never says how is taken at its word that it runs.
            None => Feed::Streaming,
        })
    }

    /// What another source than Patroni has found out, in the words of Patroni: 200 claims to lead, 503 follows.
    pub(crate) fn of(status: u16, role: Role, state: State) -> Self {
        Self {
            status,
            role: Some(role),
            state: Some(state),
            timeline: None,
            system_identifier: None,
            scope: None,
            unlocked: false,
            failsafe: false,
            paused: false,
            dcs_last_seen: None,
            date: None,
            position: None,
            replication_state: None,
            noloadbalance: false,
            version: None,
            words: None,
        }
    }

    /// `200 running primary 5` and the like, for logs and for people.
    pub(crate) fn in_words(&self) -> String {
        if let Some(words) = &self.words {
            return words.to_string();
        }
        let timeline = self.timeline.map_or("-".to_owned(), |t| t.to_string());
        format!(
            "{} {} {} {timeline}",
            self.status,
            self.state.as_ref().map_or("-", State::word),
            self.role.as_ref().map_or("-", Role::word),
        )
    }
}

const STREAMING: &str = "streaming";
const ARCHIVE: &str = "in archive recovery";
/// The first Patroni that says how a replica replicates.
const SAYS: [u32; 3] = [3, 0, 4];

/// A tag is whatever somebody wrote into a YAML file: what is not plainly a no is a yes, as for Patroni.
fn is_set(tag: &Value) -> bool {
    match tag {
        Value::Null => false,
        Value::Bool(tag) => *tag,
        Value::Number(tag) => tag.as_f64() != Some(0.0),
        Value::String(tag) => !matches!(
            &*tag.trim().to_ascii_lowercase(),
            "" | "false" | "no" | "off" | "n" | "f" | "0"
        ),
        Value::Array(tag) => !tag.is_empty(),
        Value::Object(tag) => !tag.is_empty(),
    }
}

/// `4.1.5`; of `4.0.0rc1` the digits at the front of each part.
fn version_numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    for (number, part) in numbers.iter_mut().zip(version.split('.')) {
        let digits = part.find(|c: char| !c.is_ascii_digit());
        *number = part[..digits.unwrap_or(part.len())].parse().ok()?;
    }
    Some(numbers)
}

/// A word longer than this is no word of Patroni's, and would only fill logs.
const LONGEST_WORD: usize = 64;
const LONGEST_TEXT: usize = 512;

/// The members of an object, each read when it is asked for: one that cannot be read hides no other.
pub(super) struct Members<'a>(HashMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Members<'a> {
    pub(super) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }

    fn value(&self, key: &str) -> Option<Value> {
        serde_json::from_str(self.0.get(key)?.get()).ok()
    }

    fn object(&self, key: &str) -> Option<Self> {
        Self::read(self.0.get(key)?.get())
    }

    pub(super) fn word(&self, key: &str) -> Option<String> {
        self.text(key).filter(|word| word.len() <= LONGEST_WORD)
    }

    /// For addresses, which may be longer than words. What steers a terminal is no text: it ends in our log.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) if text.is_empty() || text.len() > LONGEST_TEXT => None,
            Value::String(text) => (!text.contains(char::is_control)).then_some(text),
            _ => None,
        }
    }

    /// The objects of a list; what is no object is left out.
    pub(super) fn objects(&self, key: &str) -> Vec<Members<'a>> {
        let list = self.0.get(key).map(|list| serde_json::from_str(list.get()));
        let list: Vec<&'a RawValue> = list.and_then(Result::ok).unwrap_or_default();
        list.iter()
            .filter_map(|one| Members::read(one.get()))
            .collect()
    }

    pub(super) fn timeline(&self) -> Option<u32> {
        self.number("timeline")
            .and_then(|t| u32::try_from(t).ok())
            .filter(|t| *t > 0)
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        let value = self.value(key)?;
        value.as_u64().or_else(|| {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be a whole, small, positive number"
            )]
            value
                .as_f64()
                .filter(|n| *n >= 0.0 && *n < 9e15)
                .map(|n| n as u64)
        })
    }

    /// A string in every version recorded; a number is taken as well.
    fn identifier(&self) -> Option<Arc<str>> {
        let key = "database_system_identifier";
        match self.value(key)? {
            Value::Number(id) if id.is_u64() => Some(id.to_string().into()),
            _ => self.word(key).map(Arc::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<Answer> {
        Answer::read(200, Some("Mon, 30 Nov 2026 05:25:51 GMT"), body.as_bytes())
    }

    #[test]
    fn a_recorded_leader_is_read_whole() {
        let said = read(include_str!(
            "../../tests/fixtures/patroni/4.1.5/healthy/n1_primary.json"
        ))
        .unwrap();

        assert_eq!(said.role, Some(Role::Primary));
        assert_eq!(said.state, Some(State::Running));
        assert_eq!(said.timeline, Some(1));
        assert_eq!(said.scope.as_deref(), Some("demo"));
        assert_eq!(
            said.system_identifier.as_deref(),
            Some("7713812041936989168")
        );
        assert_eq!(said.date, Some(1_796_016_351));
        assert_eq!(said.position, Some(83_886_176));
        assert_eq!(said.in_words(), "200 running primary 1");
    }

    #[test]
    fn a_text_that_steers_a_terminal_is_none() {
        let said = read(
            r#"{"role": "primary", "state": "running", "patroni": {"scope": "main\u001b[2J"},
                "database_system_identifier": "7\nERROR", "replication_state": "streaming\u0000"}"#,
        )
        .unwrap();

        assert_eq!((said.scope, said.system_identifier), (None, None));
        assert_eq!(said.replication_state, None);
    }

    #[test]
    fn what_is_odd_is_left_out_and_the_rest_is_taken() {
        let said = read(
            r#"{"role": "master", "state": null, "timeline": "five", "xlog": [], "patroni": "x", "pause": "yes",
                "database_system_identifier": 7, "dcs_last_seen": 1.5, "never_heard": {"of": []}}"#,
        )
        .unwrap();

        assert_eq!(said.role, Some(Role::Primary));
        assert_eq!((said.state, said.timeline, said.scope), (None, None, None));
        assert_eq!(said.system_identifier.as_deref(), Some("7"));
        assert_eq!(said.dcs_last_seen, Some(1));
        assert!(!said.paused);
    }

    #[test]
    fn a_member_that_no_parser_takes_hides_no_other() {
        for odd in [r#"1e400"#, r#""\ud800""#, "\"\u{fffd}\""] {
            let said = read(&format!(
                r#"{{"odd": {odd}, "role": "primary", "xlog": {{"odd": {odd}, "location": 5}}, "state": "running"}}"#
            ));
            let said = said.unwrap_or_else(|| panic!("{odd}"));
            assert_eq!((said.role, said.position), (Some(Role::Primary), Some(5)));
        }
        let mut bytes = br#"{"role": "primary", "odd": "?"}"#.to_vec();
        bytes[28] = 0xff;
        assert!(Answer::read(200, None, &bytes).is_some());
    }

    #[test]
    fn a_recorded_replica_says_how_it_follows_unless_its_patroni_never_does() {
        for (body, feed) in [
            (
                include_str!("../../tests/fixtures/patroni/4.1.5/healthy/n2_primary.json"),
                Some(Feed::Streaming),
            ),
            (
                include_str!("../../tests/fixtures/patroni/4.0.7/healthy/n3_primary.json"),
                Some(Feed::Streaming),
            ),
            (
                include_str!("../../tests/fixtures/patroni/3.0.2/healthy/n2_primary.json"),
                Some(Feed::Streaming),
            ),
            (
                include_str!("../../tests/fixtures/patroni/3.0.2/healthy/n1_primary.json"),
                None,
            ),
        ] {
            let said = read(body).unwrap();
            assert_eq!(said.feed(), feed, "{body}");
            assert!(said.position.is_some() && !said.noloadbalance, "{body}");
        }
    }

    #[test]
    fn every_role_and_state_and_what_it_means_for_reads() {
        use Feed::{Archive, Dry, Streaming};
        for (said, feed) in [
            (
                r#""role": "replica", "state": "running", "replication_state": "streaming""#,
                Some(Streaming),
            ),
            (
                r#""role": "replica", "state": "running", "replication_state": "in archive recovery""#,
                Some(Archive),
            ),
            (
                r#""role": "replica", "state": "running", "replication_state": "catching up""#,
                Some(Dry),
            ),
            (r#""role": "replica", "state": "running""#, Some(Dry)),
            (
                r#""role": "replica", "state": "streaming""#,
                Some(Streaming),
            ),
            (
                r#""role": "sync_standby", "state": "streaming""#,
                Some(Streaming),
            ),
            (r#""role": "quorum_standby", "state": "running""#, Some(Dry)),
            (
                r#""role": "replica", "state": "in archive recovery""#,
                Some(Archive),
            ),
            (r#""role": "replica", "state": "starting""#, None),
            (r#""role": "replica", "state": "stopping""#, None),
            (r#""role": "replica", "state": "stopped""#, None),
            (r#""role": "replica", "state": "creating replica""#, None),
            (r#""role": "replica", "state": "unknown""#, None),
            (
                r#""role": "replica", "replication_state": "streaming""#,
                None,
            ),
            (r#""role": "primary", "state": "running""#, None),
            (r#""role": "standby_leader", "state": "running""#, None),
            (r#""role": "never heard", "state": "running""#, None),
            (r#""state": "running""#, None),
        ] {
            let body = format!(r#"{{{said}, "patroni": {{"version": "4.1.5"}}}}"#);
            assert_eq!(read(&body).unwrap().feed(), feed, "{said}");
        }
    }

    #[test]
    fn a_patroni_that_never_says_how_a_replica_replicates_is_not_asked_for_more() {
        for (version, feed) in [
            (r#""3.0.2""#, Feed::Streaming),
            (r#""2.1.7""#, Feed::Streaming),
            (r#""3.0.3""#, Feed::Streaming),
            (r#""3.0.4""#, Feed::Dry),
            (r#""4.0.0rc1""#, Feed::Dry),
            (r#""10.0""#, Feed::Dry),
            (r#""main""#, Feed::Streaming),
            ("5", Feed::Streaming),
        ] {
            let body = format!(
                r#"{{"role": "replica", "state": "running", "patroni": {{"version": {version}}}}}"#
            );
            assert_eq!(read(&body).unwrap().feed(), Some(feed), "{version}");
        }
    }

    #[test]
    fn a_tag_may_be_a_bool_or_a_word_or_anything() {
        for (tags, is_set) in [
            (r#"{"noloadbalance": true, "zone": "east"}"#, true),
            (r#"{"noloadbalance": "true"}"#, true),
            (r#"{"noloadbalance": "yes"}"#, true),
            (r#"{"noloadbalance": 1}"#, true),
            (r#"{"noloadbalance": [1]}"#, true),
            (r#"{"noloadbalance": {"of": 1}}"#, true),
            (r#"{"noloadbalance": false}"#, false),
            (r#"{"noloadbalance": "False"}"#, false),
            (r#"{"noloadbalance": ""}"#, false),
            (r#"{"noloadbalance": 0}"#, false),
            (r#"{"noloadbalance": null}"#, false),
            (r#"{"noloadbalance": []}"#, false),
            (r#"{"nofailover": true, "nosync": "true"}"#, false),
            ("[]", false),
            (r#""noloadbalance""#, false),
            ("{}", false),
        ] {
            let body = format!(r#"{{"role": "replica", "tags": {tags}}}"#);
            assert_eq!(read(&body).unwrap().noloadbalance, is_set, "{tags}");
        }
        let recorded =
            include_str!("../../tests/fixtures/patroni/4.1.5/noloadbalance/n3_primary.json");
        assert!(read(recorded).unwrap().noloadbalance);
    }

    #[test]
    fn what_is_not_patronis_is_no_answer() {
        for body in [
            "",
            "[]",
            "null",
            "<html>",
            "{}",
            r#"{"role": 5}"#,
            r#"{"role": ""}"#,
            r#"{"status": "ok"}"#,
        ] {
            assert_eq!(read(body), None, "{body}");
        }
    }

    #[test]
    fn huge_numbers_and_words_are_left_out() {
        let long = "x".repeat(100_000);
        let said = read(&format!(
            r#"{{"role": "{long}", "state": "running", "timeline": 1e300, "dcs_last_seen": -5, "database_system_identifier": "{long}"}}"#
        ))
        .unwrap();

        assert_eq!(
            (
                said.role,
                said.timeline,
                said.dcs_last_seen,
                said.system_identifier
            ),
            (None, None, None, None)
        );
    }
}
