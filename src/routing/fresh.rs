//! Freshness at use: no session starts on old news.

use crate::primary_tracker::{Picture, Wish};

use super::{Router, Target};

/// How a wait for news ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The leader's word is young enough, or something else was proved.
    Heard,
    Silence,
}

impl Router {
    /// Waits until the leader's word is young enough for a session to start, at most `freshness_wait`. Silence falls
    /// back on the lease, so the caller asks [`Router::still_valid`] afterwards, whatever happened here.
    ///
    /// Readers need none.
    pub(crate) async fn fresh(&self, target: &Target) -> News {
        if !target.intent.route.writes() {
            return News::Heard;
        }
        let now = self.clock.now();
        let mut picture = self.picture.clone();
        let (staleness, wait) = {
            let settings = self.settings.borrow();
            (settings.max_staleness, settings.freshness_wait)
        };
        let is_old = |picture: &Picture| match &picture.lease {
            Some(lease) if lease.epoch == target.epoch && lease.open => {
                let oldest = now.back(staleness + lease.usual * 2);
                (lease.proved < oldest).then_some(oldest)
            }
            // Proof of something else: the caller will see.
            _ => None,
        };
        let Some(oldest) = is_old(&picture.borrow_and_update()) else {
            return News::Heard;
        };
        // A question that is under way already is as good as a new one, if it was sent since.
        self.demand.wish(Wish::Fresh(oldest));
        let heard = picture.wait_for(|picture| is_old(picture).is_none());
        match tokio::time::timeout(wait, heard).await {
            Ok(_) => News::Heard,
            Err(_late) => News::Silence,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::routing::testing::Script;
    use crate::routing::{Intent, RoutingSettings};

    const ADDR: &str = "127.0.0.1:1";

    async fn routed(script: &Script) -> Target {
        script.leads(ADDR.parse().unwrap());
        let mut ticket = script.router.ticket(Intent::default());
        script.router.route(&mut ticket).await.unwrap().target
    }

    async fn takes(script: &Script, target: &Target) -> Duration {
        let start = tokio::time::Instant::now();
        script.router.fresh(target).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn recent_news_is_used_without_a_question() {
        let script = Script::new(Clock::paused(), RoutingSettings::default());
        let target = routed(&script).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;

        assert_eq!(takes(&script, &target).await, Duration::ZERO);
        assert!(script.demand.take_wishes().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn old_news_is_asked_for_and_silence_falls_back_on_the_lease() {
        let script = Script::new(Clock::paused(), RoutingSettings::default());
        let target = routed(&script).await;
        tokio::time::sleep(Duration::from_secs(3)).await;

        let asked = script.clock.now();
        assert_eq!(takes(&script, &target).await, Duration::from_millis(500));

        let oldest = asked.back(Duration::from_millis(1_504));
        assert_eq!(script.demand.take_wishes(), [Wish::Fresh(oldest)]);
        assert!(script.router.still_valid(&target));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_the_wait_and_proof_decides() {
        let script = Script::new(Clock::paused(), RoutingSettings::default());
        let target = routed(&script).await;
        tokio::time::sleep(Duration::from_secs(3)).await;

        let answer = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            script.proves();
        };
        let (waited, ()) = tokio::join!(takes(&script, &target), answer);
        assert_eq!(waited, Duration::from_millis(20));
        assert!(script.router.still_valid(&target));

        tokio::time::sleep(Duration::from_secs(3)).await;
        let answer = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            script.follows();
        };
        let (waited, ()) = tokio::join!(takes(&script, &target), answer);
        assert_eq!(waited, Duration::from_millis(20));
        assert!(!script.router.still_valid(&target));
    }
    #[tokio::test(start_paused = true)]
    async fn an_answer_to_a_question_that_was_under_way_is_young_enough() {
        let script = Script::new(Clock::paused(), RoutingSettings::default());
        let target = routed(&script).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let sent = script.clock.now().back(Duration::from_millis(1_000));

        let answer = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            script.amend(|lease| lease.proved = sent);
        };
        let (waited, ()) = tokio::join!(takes(&script, &target), answer);

        assert_eq!(waited, Duration::from_millis(20));
    }
}
