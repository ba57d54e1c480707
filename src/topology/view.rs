//! The cluster as one node sees it: a pure, lenient reading of `GET /cluster`.

use std::net::SocketAddr;
use std::sync::Arc;

use super::NodeSettings;
use super::answer::Members;
use super::url::RestUrl;
use crate::net::canonical;

/// The usable part of a view. It is hearsay: a member that was cut off from the DCS serves an old one for ever, so
/// nobody is authorised by a view alone.
///
/// Source: Patroni documentation, "REST API", `GET /cluster`; recorded answers in `tests/fixtures/patroni`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) members: Vec<Member>,
    /// Patroni before 4 names none.
    pub(crate) scope: Option<Arc<str>>,
}

/// One member as the view lists it. What is missing or of an odd type is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: Arc<str>,
    pub(crate) host: Option<Arc<str>>,
    /// PostgreSQL's port; absent means 5432.
    pub(crate) port: u16,
    pub(crate) api: Option<RestUrl>,
    /// Holds the leader key and was running when it last wrote so. A `standby_leader` is none.
    pub(crate) leads: bool,
    /// Of the moment at which the member last wrote into the DCS: of a leader that has just been promoted it is still
    /// the one before.
    pub(crate) timeline: Option<u32>,
}

impl View {
    /// `None` when this is no view: another status, no JSON object, or no member that can be read.
    pub(crate) fn read(status: u16, body: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(body);
        let said = Members::read(&text).filter(|_| status == 200)?;
        let members: Vec<_> = said
            .objects("members")
            .iter()
            .filter_map(Member::read)
            .collect();
        (!members.is_empty()).then(|| Self {
            members,
            scope: said.word("scope").map(Arc::from),
        })
    }

    /// The members that lead, by this view. More than one is no cluster of Patroni's.
    pub(crate) fn leaders(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.leads)
    }
}

impl Member {
    fn read(said: &Members<'_>) -> Option<Self> {
        let role = said.word("role");
        let leads = matches!(role.as_deref(), Some("leader" | "master" | "primary"))
            && said.word("state").as_deref() == Some("running");
        let port = said.number("port").map_or(Ok(5432), u16::try_from);
        Some(Self {
            name: said.word("name")?.into(),
            host: said
                .text("host")
                .filter(|_| port.is_ok())
                .map(|host| host.trim_matches(['[', ']']).into()),
            port: port.unwrap_or(5432),
            api: said.text("api_url").and_then(|url| RestUrl::parse(&url)),
            leads,
            timeline: said.timeline(),
        })
    }

    /// Is this the configured node? Its PostgreSQL answers at `dial`, where that is proved.
    pub(crate) fn has_address_of(&self, node: &NodeSettings, dial: Option<SocketAddr>) -> bool {
        let Some(host) = &self.host else { return false };
        let own = canonical(host);
        (own == canonical(&node.host) && self.port == node.port)
            || dial.is_some_and(|dial| {
                own == dial.ip().to_canonical().to_string() && self.port == dial.port()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! recorded {
        ($path:literal) => {
            View::read(
                200,
                include_bytes!(concat!("../../tests/fixtures/patroni/", $path)),
            )
            .unwrap()
        };
    }

    fn read(members: &str) -> Option<View> {
        View::read(200, format!(r#"{{"members": {members}}}"#).as_bytes())
    }

    fn leaders(view: &View) -> Vec<(&str, Option<u32>)> {
        view.leaders().map(|m| (&*m.name, m.timeline)).collect()
    }

    fn node(name: &str, host: &str, port: u16) -> NodeSettings {
        NodeSettings {
            name: name.into(),
            host: host.into(),
            port,
            rest_host: None,
            rest_port: 8008,
            role: crate::topology::NodeRole::Auto,
            enabled: true,
            weight: 100,
        }
    }

    #[test]
    fn recorded_views_are_read_whole() {
        for (view, scope) in [
            (recorded!("4.1.5/healthy/n2_cluster.json"), Some("demo")),
            (recorded!("4.0.7/healthy/n2_cluster.json"), Some("demo")),
            (recorded!("3.0.2/healthy/n2_cluster.json"), None),
        ] {
            assert_eq!(view.scope.as_deref(), scope);
            assert_eq!(view.members.len(), 3);
            assert_eq!(leaders(&view), [("n1", Some(1))]);
            let n3 = &view.members[2];
            assert_eq!((n3.host.as_deref(), n3.port), (Some("127.0.1.3"), 5432));
            let api = n3.api.as_ref().unwrap();
            assert_eq!((&*api.host, api.port), ("127.0.1.3", 8008));
        }
    }

    #[test]
    fn between_two_leaders_a_recorded_view_names_none_and_then_the_next_on_the_old_timeline() {
        let during = recorded!("4.1.5/transitions/switchover_1/011_n1_cluster.json");
        let after = recorded!("4.1.5/transitions/switchover_1/020_n3_cluster.json");

        assert_eq!(leaders(&during), []);
        assert_eq!(leaders(&after), [("n1", Some(2))]);
        // The one that is stopping has no position, which hides nothing.
        assert_eq!(after.members.len(), 3);
    }

    #[test]
    fn in_every_recorded_mode_the_holder_of_the_key_leads() {
        for view in [
            recorded!("4.1.5/synchronous_mode/n1_cluster.json"),
            recorded!("4.1.5/quorum_mode/n1_cluster.json"),
        ] {
            assert_eq!(leaders(&view), [("n3", Some(2))]);
        }
        let paused = recorded!("4.1.5/maintenance/n1_cluster.json");
        assert_eq!(leaders(&paused), [("n1", Some(1))]);
        let down = recorded!("4.1.5/maintenance_leader_postgres_down/n1_cluster.json");
        assert_eq!(leaders(&down), []);
    }

    #[test]
    fn a_standby_leader_does_not_lead() {
        let view = recorded!("4.1.5/standby_cluster/n1_cluster.json");
        assert_eq!((leaders(&view), view.members.len()), (vec![], 3));
    }

    #[test]
    fn a_leader_leads_only_while_it_runs_and_by_every_word_for_it() {
        let view = read(
            r#"[{"name": "a", "role": "leader", "state": "stopping"},
                {"name": "b", "role": "leader"},
                {"name": "c", "role": "master", "state": "running", "timeline": "x"},
                {"name": "d", "role": "primary", "state": "running", "timeline": 7}]"#,
        )
        .unwrap();
        assert_eq!(leaders(&view), [("c", None), ("d", Some(7))]);
    }

    #[test]
    fn one_odd_member_hides_no_other() {
        for odd in [
            "5",
            "null",
            "[]",
            r#""n9""#,
            "{}",
            r#"{"name": 5, "role": "leader", "state": "running"}"#,
            r#"{"name": "n9", "port": 70000, "host": [], "lag": "unknown", "tags": 5, "api_url": "::"}"#,
            r#"{"name": "n9", "timeline": 1e400}"#,
            r#"{"name": "\ud800"}"#,
        ] {
            let view = read(&format!(
                r#"[{odd}, {{"name": "n1", "role": "leader", "state": "running", "timeline": 5}}]"#
            ));
            assert_eq!(leaders(&view.unwrap()), [("n1", Some(5))], "{odd}");
        }
    }

    #[test]
    fn what_is_no_view_is_none() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"members": 5}"#,
            r#"{"members": []}"#,
            r#"{"members": [{}]}"#,
        ] {
            assert_eq!(View::read(200, body.as_bytes()), None, "{body}");
        }
        let good = include_bytes!("../../tests/fixtures/patroni/4.1.5/healthy/n1_cluster.json");
        assert_eq!(View::read(503, good), None);
    }

    #[test]
    fn a_member_is_matched_by_canonical_address() {
        let member = |host: &str, port: &str| {
            let text = format!(r#"[{{"name": "x", "host": "{host}"{port}}}]"#);
            read(&text).unwrap().members.remove(0)
        };
        let default = member("PG1.Example.", "");
        assert!(default.has_address_of(&node("a", "pg1.example", 5432), None));
        assert!(!default.has_address_of(&node("a", "pg1.example", 5433), None));
        assert!(!default.has_address_of(&node("a", "pg2.example", 5432), None));
        let v6 = member("[2001:DB8:0::1]", r#", "port": 5433"#);
        assert!(v6.has_address_of(&node("a", "2001:db8::1", 5433), None));
        let mapped = member("::ffff:10.0.0.1", "");
        assert!(mapped.has_address_of(&node("a", "10.0.0.1", 5432), None));
    }

    #[test]
    fn a_member_is_matched_by_the_address_that_a_name_has_proved_to_be() {
        let view = read(r#"[{"name": "x", "host": "10.0.0.1"}]"#).unwrap();
        let named = node("a", "pg1.example", 5432);
        let at = |text: &str| Some(text.parse().unwrap());

        assert!(!view.members[0].has_address_of(&named, None));
        assert!(view.members[0].has_address_of(&named, at("10.0.0.1:5432")));
        assert!(view.members[0].has_address_of(&named, at("[::ffff:10.0.0.1]:5432")));
        assert!(!view.members[0].has_address_of(&named, at("10.0.0.2:5432")));
    }
}
