//! What an answer proves: the evidence table, one pure function.

use super::answer::{Answer, Role, State};

/// What an answer proves about its node. Silence is no evidence: the older one stays, with its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Evidence {
    /// Holds Patroni's lock and runs as a primary.
    Leads,
    /// Holds the lock, not writable yet: a claim to the lock.
    Promoting,
    /// The present leader is stopping, restarting or in crash recovery: PostgreSQL ends its sessions itself.
    Retiring,
    /// The present leader runs without its lock: Patroni was restarted, or lost the key and takes it again.
    Unlocked,
    /// Does not lead.
    Follows,
}

/// How the node stands when it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The node of the current epoch, while that epoch is not over, on this timeline.
    PresentLeader {
        timeline: Option<u32>,
    },
    Other,
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    Proves(Evidence),
    /// An answer, so the node is up; but it proves nothing.
    Nothing,
    /// Not even an answer of a Patroni node.
    Silent,
}

/// The table of what each answer to `GET /primary` means.
///
/// Source: Patroni documentation, "REST API", `GET /primary`; the order of answers on the way through a
/// switchover, a crash and a restart of Patroni as recorded in `tests/fixtures/patroni`.
pub(crate) fn judge(said: &Answer, standing: Standing) -> Worth {
    let primary = said.role == Some(Role::Primary);
    let present = matches!(standing, Standing::PresentLeader { .. });
    match said.status {
        200 if said.role.is_none() => Worth::Silent,
        200 if primary => match &said.state {
            Some(State::Running) => Worth::Proves(Evidence::Leads),
            Some(State::Unknown) if present => Worth::Proves(Evidence::Leads),
            Some(State::Unknown) => Worth::Nothing,
            Some(State::Other(_)) | None if reigns_on(said.timeline, standing) => {
                Worth::Proves(Evidence::Retiring)
            }
            Some(State::Other(_)) | None => Worth::Proves(Evidence::Promoting),
        },
        200 => Worth::Proves(Evidence::Promoting),
        500..=599 if primary && said.state == Some(State::Running) && present => {
            Worth::Proves(Evidence::Unlocked)
        }
        500..=599 => Worth::Proves(Evidence::Follows),
        _ => Worth::Silent,
    }
}

/// Is this the present leader, on the timeline of its epoch? None named counts as the same.
fn reigns_on(timeline: Option<u32>, standing: Standing) -> bool {
    match standing {
        Standing::PresentLeader { timeline: reign } => {
            timeline.is_none() || reign.is_none() || timeline == reign
        }
        Standing::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Evidence::{Follows, Leads, Promoting, Retiring, Unlocked};
    use Standing::Other;
    use Worth::{Nothing, Proves, Silent};

    const PRESENT: Standing = Standing::PresentLeader { timeline: Some(5) };

    fn said(status: u16, body: &str) -> Answer {
        Answer::read(status, None, body.as_bytes()).unwrap()
    }

    #[test]
    fn running_primary_with_200_leads() {
        for role in ["primary", "master"] {
            let said = said(200, &format!(r#"{{"role":"{role}","state":"running"}}"#));
            assert_eq!(judge(&said, Other), Proves(Leads));
            assert_eq!(judge(&said, PRESENT), Proves(Leads));
        }
    }

    #[test]
    fn unknown_state_leads_still_at_the_present_leader_and_proves_nothing_elsewhere() {
        let said = said(200, r#"{"role":"primary","state":"unknown"}"#);
        assert_eq!(judge(&said, PRESENT), Proves(Leads));
        assert_eq!(judge(&said, Other), Nothing);
    }

    #[test]
    fn another_state_is_retiring_at_the_present_leader_on_its_timeline() {
        for state in ["stopping", "starting", "restarting", "crashed", "stopped"] {
            let bare = said(200, &format!(r#"{{"role":"primary","state":"{state}"}}"#));
            assert_eq!(judge(&bare, PRESENT), Proves(Retiring), "{state}");
            assert_eq!(judge(&bare, Other), Proves(Promoting), "{state}");
        }
        let same = said(200, r#"{"role":"primary","state":"starting","timeline":5}"#);
        assert_eq!(judge(&same, PRESENT), Proves(Retiring));
        let next = said(200, r#"{"role":"primary","state":"starting","timeline":6}"#);
        assert_eq!(judge(&next, PRESENT), Proves(Promoting));
    }

    #[test]
    fn any_other_200_is_promoting() {
        for role in ["replica", "standby_leader", "demoted", "never_heard_of"] {
            let said = said(200, &format!(r#"{{"role":"{role}","state":"running"}}"#));
            assert_eq!(judge(&said, Other), Proves(Promoting), "{role}");
            assert_eq!(judge(&said, PRESENT), Proves(Promoting), "{role}");
        }
    }

    #[test]
    fn a_200_without_a_usable_role_is_silent() {
        assert_eq!(judge(&said(200, r#"{"state":"running"}"#), PRESENT), Silent);
        assert_eq!(
            judge(&said(200, r#"{"role":[],"state":"running"}"#), Other),
            Silent
        );
    }

    #[test]
    fn running_primary_with_503_is_unlocked_at_the_present_leader_and_follows_elsewhere() {
        let said = said(503, r#"{"role":"primary","state":"running"}"#);
        assert_eq!(judge(&said, PRESENT), Proves(Unlocked));
        assert_eq!(judge(&said, Other), Proves(Follows));
    }

    #[test]
    fn any_other_503_of_patroni_follows() {
        for body in [
            r#"{"role":"replica","state":"running"}"#,
            r#"{"role":"replica","state":"streaming"}"#,
            r#"{"role":"standby_leader","state":"running"}"#,
            r#"{"role":"demoted","state":"stopping"}"#,
            r#"{"role":"primary","state":"stopped"}"#,
            r#"{"role":"never_heard_of"}"#,
            r#"{"state":"creating replica"}"#,
        ] {
            assert_eq!(judge(&said(503, body), PRESENT), Proves(Follows), "{body}");
            assert_eq!(judge(&said(503, body), Other), Proves(Follows), "{body}");
        }
    }

    #[test]
    fn every_other_status_is_silent() {
        for status in [204, 301, 302, 401, 403, 404] {
            let said = said(status, r#"{"role":"primary","state":"running"}"#);
            assert_eq!(judge(&said, PRESENT), Silent, "{status}");
        }
    }
}
