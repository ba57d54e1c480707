//! Whom to ask for a view of the cluster, and when: one endpoint after the other, until one is of use.

use std::sync::Arc;
use std::time::Duration;

use super::cadence::{LeaderInterval, Pace, Tempo};
use super::question::{NoAnswer, Reply};
use super::view::View;
use super::{HealthSettings, NodeSettings, Place, RestUrl};
use crate::causes::chain;
use crate::clock::BootTime;
use crate::net::Host;

/// The next endpoint is asked as well once the last one has used up this share of its time: a hung one delays nobody.
const SHARE: u32 = 4;

/// The questions of the provider `patroni`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewSettings {
    /// In this order, and the first view that is of use counts.
    pub(crate) endpoints: Vec<RestUrl>,
    /// For each question.
    pub(crate) timeout: Duration,
    /// At rest.
    pub(crate) interval: Duration,
    /// Are members taken in that nobody has configured?
    pub(crate) discover: bool,
}

impl ViewSettings {
    /// Every node's own REST API, in the order of the nodes.
    pub(crate) fn endpoints_of(nodes: &[NodeSettings], https: bool) -> Vec<RestUrl> {
        let url = |node: &NodeSettings| RestUrl {
            https,
            host: Arc::clone(node.rest_host.as_ref().unwrap_or(&node.host)),
            port: node.rest_port,
        };
        nodes.iter().map(url).collect()
    }
}

/// A view, who showed it, and when it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct ViewSeen {
    pub(crate) endpoint: Arc<str>,
    pub(crate) sent: BootTime,
    pub(crate) view: View,
}

/// All endpoints were asked, and none has shown a view that is of use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoView;

/// Which question for a view this is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViewAsked {
    /// When the first endpoint was asked.
    round: BootTime,
    endpoint: usize,
    sent: BootTime,
}

/// Asks nothing itself and has no clock: the poller sends what is due and tells what became of it.
pub(super) struct Views {
    endpoints: Vec<Endpoint>,
    timeout: Duration,
    /// Views are asked for as nodes are, only more calmly: what is urgent, the nodes say themselves.
    rhythm: HealthSettings,
    tempo: Tempo,
    round: Option<Round>,
    /// The endpoint to go on with, if the view of the last round proves to be of no use after all.
    next: usize,
    /// Drawn anew for each round.
    jitter: f32,
    /// No endpoint has shown a view since this was said.
    silent_said: bool,
}

struct Endpoint {
    url: Arc<str>,
    /// As it is written.
    name: Arc<str>,
    host: Host,
    port: u16,
    /// Its question has not ended, whatever has become of the round: a hung one is asked no second one meanwhile.
    under_way: Option<BootTime>,
}

/// The endpoints are being asked.
struct Round {
    began: BootTime,
    /// When the next endpoint is asked, if there is one.
    next_at: BootTime,
    under_way: usize,
    /// The longest own time of those that answered: the brake is measured by it.
    own_time: Option<(Duration, Duration)>,
    /// One has shown a view, whatever that was worth.
    shown: bool,
}

impl Views {
    /// Must be called on the runtime that asks: host names begin to be looked up.
    pub(super) fn new(settings: &ViewSettings, health: &HealthSettings) -> Self {
        let endpoint = |url: &RestUrl| Endpoint {
            url: url.to_string().into(),
            name: Arc::clone(&url.host),
            host: Host::new(&url.host),
            port: url.port,
            under_way: None,
        };
        Self {
            endpoints: settings.endpoints.iter().map(endpoint).collect(),
            timeout: settings.timeout,
            rhythm: rhythm(settings.interval, health),
            tempo: Tempo::default(),
            round: None,
            next: 0,
            jitter: fastrand::f32(),
            silent_said: false,
        }
    }

    /// When to ask next; `None` while only answers are waited for.
    pub(super) fn due(&self, pace: Pace) -> Option<BootTime> {
        match &self.round {
            Some(round) => self.free_from(self.next).map(|_| round.next_at),
            None => {
                let due = self.tempo.next(pace, &self.rhythm, NO_LEADER, self.jitter);
                due.filter(|_| self.free_from(0).is_some())
            }
        }
    }

    /// The first endpoint from there on that may be asked.
    fn free_from(&self, at: usize) -> Option<usize> {
        let mut ahead = self.endpoints.iter().enumerate().skip(at);
        ahead
            .find(|(_, endpoint)| endpoint.under_way.is_none())
            .map(|(at, _)| at)
    }

    /// The question that is due; `None` when nobody is free to be asked.
    pub(super) fn ask(&mut self, now: BootTime, pace: Pace) -> Option<(ViewAsked, Place)> {
        if self.round.is_none() {
            self.tempo.sent(now, pace, &self.rhythm);
            self.jitter = fastrand::f32();
            self.next = 0;
        }
        let at = self.free_from(self.next)?;
        let round = self.round.get_or_insert(Round {
            began: now,
            next_at: now,
            under_way: 0,
            own_time: None,
            shown: false,
        });
        round.under_way += 1;
        round.next_at = now + self.timeout / SHARE;
        let asked = ViewAsked {
            round: round.began,
            endpoint: at,
            sent: now,
        };
        let endpoint = &mut self.endpoints[at];
        endpoint.under_way = Some(now);
        self.next = at + 1;
        let place = Place {
            name: Arc::clone(&endpoint.name),
            host: endpoint.host.asker(),
            port: endpoint.port,
            prefer: None,
            only: false,
            limit: self.timeout,
        };
        Some((asked, place))
    }

    /// A question has ended. A view is news, until it has been said whether it is of use; else the next endpoint is
    /// asked at once.
    pub(super) fn ended(
        &mut self,
        asked: ViewAsked,
        now: BootTime,
        outcome: Result<Reply, NoAnswer>,
    ) -> Option<Result<ViewSeen, NoView>> {
        let endpoint = self.endpoints.get_mut(asked.endpoint)?;
        endpoint.under_way = endpoint.under_way.filter(|sent| *sent != asked.sent);
        let endpoint = &endpoint.url;
        let round = self.round.as_mut().filter(|r| r.began == asked.round)?;
        round.under_way -= 1;
        let took = now.saturating_sub(asked.sent);
        let view = match outcome {
            Ok(reply) => {
                round.own_time = round.own_time.max(Some((took, reply.own_time)));
                View::read(reply.status, &reply.body).or_else(|| {
                    tracing::debug!(%endpoint, status = reply.status, "no view of the cluster");
                    None
                })
            }
            Err(error) => {
                tracing::debug!(%endpoint, error = %chain(&error), "no view of the cluster");
                None
            }
        };
        if let Some(view) = view {
            round.shown = true;
            return Some(Ok(ViewSeen {
                endpoint: Arc::clone(endpoint),
                sent: asked.sent,
                view,
            }));
        }
        self.go_on(now).map(Err)
    }

    /// The view that was shown last is of use: the others need not be asked.
    pub(super) fn close(&mut self) {
        self.silent_said = false;
        if let Some(round) = self.round.take() {
            self.tempo.ended(round.began, round.own_time);
        }
    }

    /// The view that was shown last is of no use, or is no longer: the next endpoint is asked, if any is left.
    pub(super) fn refuse(&mut self, now: BootTime) -> Option<NoView> {
        if self.round.is_none() {
            if self.free_from(self.next).is_none() {
                return Some(NoView);
            }
            self.round = Some(Round {
                began: now,
                next_at: now,
                under_way: 0,
                own_time: None,
                shown: true,
            });
        }
        self.go_on(now)
    }

    fn go_on(&mut self, now: BootTime) -> Option<NoView> {
        let is_left = self.free_from(self.next).is_some();
        let round = self.round.as_mut()?;
        round.next_at = now;
        if is_left || round.under_way > 0 {
            return None;
        }
        if !round.shown && !std::mem::replace(&mut self.silent_said, true) {
            tracing::warn!(
                "no endpoint shows its view of the cluster (GET /cluster); the nodes' own words decide alone"
            );
        }
        self.tempo.ended(round.began, round.own_time);
        self.round = None;
        Some(NoView)
    }

    /// A doubt begins: a view asked for not before `since` is wanted. A fleet doubts in the same moment, so each takes
    /// its own share of an interval.
    pub(super) fn doubt(&mut self, since: BootTime) {
        let share = self.rhythm.fast_interval.mul_f32(self.jitter);
        self.tempo.want(since, since + share);
    }
}

/// No endpoint is asked as a leader is.
const NO_LEADER: LeaderInterval = LeaderInterval(Duration::MAX);

fn rhythm(interval: Duration, health: &HealthSettings) -> HealthSettings {
    HealthSettings {
        check_interval: interval,
        fast_interval: health.active_interval,
        ..health.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: BootTime = BootTime::ZERO;

    fn ms(n: u64) -> BootTime {
        AT + Duration::from_millis(n)
    }

    fn three() -> Views {
        let url = |host: &str| RestUrl {
            https: false,
            host: host.into(),
            port: 8008,
        };
        let settings = ViewSettings {
            endpoints: ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(url).to_vec(),
            timeout: Duration::from_secs(2),
            interval: Duration::from_secs(2),
            discover: false,
        };
        Views::new(&settings, &HealthSettings::default())
    }

    fn reply(status: u16) -> Reply {
        let body = r#"{"members":[{"name":"n1","role":"leader","state":"running"}]}"#;
        Reply {
            from: ([10, 0, 0, 1], 0).into(),
            status,
            date: None,
            body: body.into(),
            own_time: Duration::from_millis(1),
        }
    }

    fn refused() -> NoAnswer {
        NoAnswer::Connect {
            source: std::io::ErrorKind::ConnectionRefused.into(),
        }
    }

    /// Asks what is due at `now`, which must be something.
    fn ask(views: &mut Views, now: BootTime) -> (ViewAsked, String) {
        let due = views.due(Pace::default());
        assert!(due.is_some_and(|at| at <= now), "{due:?}");
        let (asked, place) = views.ask(now, Pace::default()).unwrap();
        (asked, place.name.to_string())
    }

    #[test]
    fn the_endpoints_are_asked_in_order_until_one_shows_a_view() {
        let mut views = three();
        let (first, name) = ask(&mut views, AT);
        assert_eq!(name, "10.0.0.1");
        assert!(views.ended(first, ms(1), Err(refused())).is_none());
        let (second, name) = ask(&mut views, ms(1));
        assert_eq!(name, "10.0.0.2");
        assert!(views.ended(second, ms(2), Ok(reply(503))).is_none());
        let (third, name) = ask(&mut views, ms(2));
        assert_eq!(name, "10.0.0.3");

        let seen = views.ended(third, ms(3), Ok(reply(200))).unwrap().unwrap();

        assert_eq!(&*seen.endpoint, "http://10.0.0.3:8008");
        assert_eq!(seen.sent, ms(2));
        views.close();
        let again = views.due(Pace::default()).unwrap();
        assert!(again >= ms(1800) && again <= ms(2000), "{again:?}");
        assert_eq!(ask(&mut views, ms(2000)).1, "10.0.0.1");
    }

    #[test]
    fn a_hung_endpoint_delays_the_next_by_a_quarter_of_its_time_and_may_still_answer() {
        let mut views = three();
        let (first, _) = ask(&mut views, AT);
        assert_eq!(views.due(Pace::default()), Some(ms(500)));
        let (second, _) = ask(&mut views, ms(500));

        views
            .ended(first, ms(600), Ok(reply(200)))
            .unwrap()
            .unwrap();
        views.close();
        assert!(
            views.ended(second, ms(700), Ok(reply(200))).is_none(),
            "too late"
        );
    }

    #[test]
    fn a_hung_endpoint_is_asked_no_second_question_and_the_others_at_once() {
        let mut views = three();
        let (hung, _) = ask(&mut views, AT);
        let (second, _) = ask(&mut views, ms(500));
        views
            .ended(second, ms(501), Ok(reply(200)))
            .unwrap()
            .unwrap();
        views.close();

        for round in 1..=5 {
            let at = ms(2500 * round);
            let (asked, name) = ask(&mut views, at);
            assert_eq!(name, "10.0.0.2");
            views.ended(asked, at, Ok(reply(200))).unwrap().unwrap();
            views.close();
        }

        assert!(views.ended(hung, ms(13_000), Err(refused())).is_none());
        assert_eq!(ask(&mut views, ms(15_000)).1, "10.0.0.1");
    }

    #[test]
    fn a_view_of_no_use_makes_the_next_endpoint_be_asked_at_once() {
        let mut views = three();
        let (first, _) = ask(&mut views, AT);
        views.ended(first, ms(1), Ok(reply(200))).unwrap().unwrap();

        views.refuse(ms(1));

        assert_eq!(ask(&mut views, ms(1)).1, "10.0.0.2");
    }

    #[test]
    fn a_view_that_turns_out_to_be_of_no_use_reopens_the_round() {
        let mut views = three();
        let (first, _) = ask(&mut views, AT);
        views.ended(first, ms(1), Ok(reply(200))).unwrap().unwrap();
        views.close();

        views.refuse(ms(40));

        let (second, name) = ask(&mut views, ms(40));
        assert_eq!(name, "10.0.0.2");
        views
            .ended(second, ms(41), Ok(reply(200)))
            .unwrap()
            .unwrap();
    }

    #[test]
    fn a_round_without_a_view_is_followed_by_the_next_after_the_interval() {
        let mut views = three();
        for at in [0, 1, 2] {
            let (asked, _) = ask(&mut views, ms(at));
            let over = views.ended(asked, ms(at + 1), Err(refused()));
            assert_eq!(matches!(over, Some(Err(NoView))), at == 2);
        }
        let again = views.due(Pace::default()).unwrap();
        assert!(again >= ms(1800) && again <= ms(2000), "{again:?}");
        views.refuse(ms(10));
        assert_eq!(
            views.due(Pace::default()),
            Some(again),
            "nobody is left to ask"
        );
    }

    #[test]
    fn in_doubt_views_are_asked_for_each_active_interval() {
        let mut views = three();
        let (asked, _) = ask(&mut views, AT);
        views.ended(asked, ms(1), Ok(reply(200))).unwrap().unwrap();
        views.close();
        let pace = Pace {
            doubt: true,
            held: true,
            ..Pace::default()
        };

        let again = views.due(pace).unwrap();

        assert!(again >= ms(800) && again <= ms(1200), "{again:?}");
    }
}
