//! Why a node counts as it does: each rule of authority, told by the node it concerns.

use super::{Arena, DOWN_AFTER, body, of_cluster};
use crate::primary_tracker::{Rule, WhyNobody};

impl Arena {
    pub(super) fn rule_of(&self, node: usize) -> Rule {
        let record = &self.decider.records[node - 1];
        self.decider.verdict(record, self.now).rule
    }
}

#[test]
fn a_settled_cluster_is_told_in_the_words_of_the_evidence() {
    let arena = Arena::settled();

    assert_eq!(arena.rule_of(1), Rule::Leads);
    assert_eq!(arena.rule_of(2), Rule::Follows);
    let verdict = arena.decider.verdict(&arena.decider.records[0], arena.now);
    assert_eq!(verdict.asked, Some(arena.now));
    let (words, sent) = verdict.evidence.unwrap();
    assert_eq!((&*words, sent), ("200 running primary 5", arena.now));
}

#[test]
fn nothing_is_known_before_the_first_answer_and_silence_is_no_evidence() {
    let mut arena = Arena::new();
    assert_eq!(arena.rule_of(1), Rule::NotAsked);

    arena.silent(1);

    assert_eq!(arena.rule_of(1), Rule::NoEvidence);
}

#[test]
fn a_first_claim_waits_for_its_node_to_be_up() {
    let mut arena = Arena::new();

    arena.leads(1, 5);

    let not_up = Rule::NotUp {
        answers: 1,
        needed: 2,
    };
    assert_eq!(arena.rule_of(1), not_up);
}

#[test]
fn silence_leaves_the_last_proof_until_the_lease_ends() {
    let mut arena = Arena::settled();
    let asked = arena.now;

    for _ in 0..DOWN_AFTER {
        arena.pass(1_000);
        arena.silent(1);
    }
    assert_eq!(arena.rule_of(1), Rule::Leads);
    let verdict = arena.decider.verdict(&arena.decider.records[0], arena.now);
    assert_eq!(verdict.asked, Some(arena.now));
    assert_eq!(verdict.evidence.map(|(_, sent)| sent), Some(asked));

    arena.pass(6_000);
    assert_eq!(arena.rule_of(1), Rule::ClaimEnded);
}

#[test]
fn of_two_claims_the_lower_timeline_and_the_tie_are_told() {
    let mut arena = Arena::settled();
    arena.leads(2, 6);
    let leader = "n2".into();
    let lower = Rule::LowerTimeline { leader };
    assert_eq!((arena.rule_of(1), arena.rule_of(2)), (lower, Rule::Leads));
    arena.pass(10);
    arena.leads(1, 5);
    assert_eq!(arena.rule_of(1), Rule::Stale { known: Some(6) });

    let mut arena = Arena::settled();
    arena.leads(2, 5);
    assert_eq!(arena.why(), Some(WhyNobody::Conflict));
    assert_eq!(arena.rule_of(1), Rule::Conflict);
    assert_eq!(arena.rule_of(2), Rule::Conflict);
}

#[test]
fn whoever_is_being_promoted_silences_every_other_claim() {
    let mut arena = Arena::settled();

    arena.say(2, 200, &body("replica", "running", 5));

    assert_eq!(arena.rule_of(2), Rule::Promoting);
    assert_eq!(arena.rule_of(1), Rule::AnotherPromotes);
    arena.pass(10_000);
    assert_eq!(arena.rule_of(2), Rule::PromotionEnded);
}

#[test]
fn the_present_leaders_troubles_are_told_by_their_names() {
    let mut arena = Arena::settled();
    arena.say(1, 200, &body("primary", "stopping", 5));
    assert_eq!(arena.rule_of(1), Rule::Retiring);

    let mut arena = Arena::settled();
    arena.say(1, 503, &body("primary", "running", 5));
    assert_eq!(arena.rule_of(1), Rule::Unlocked);

    let mut arena = Arena::new();
    arena.say(1, 503, &body("standby_leader", "running", 5));
    assert_eq!(arena.rule_of(1), Rule::StandbyLeader);
}

#[test]
fn a_lock_that_was_not_renewed_is_told() {
    let mut arena = Arena::new();
    let old = r#"{"role":"primary","state":"running","timeline":5,"dcs_last_seen":1000000000}"#;
    let date = Some("Mon, 30 Nov 2026 05:25:51 GMT");
    for _ in 0..2 {
        arena.say_at(1, 200, old, arena.now, date);
    }

    assert_eq!(arena.rule_of(1), Rule::LockTooOld);
}

#[test]
fn another_clusters_answer_is_told_until_the_node_answers_for_this_one() {
    let mut arena = Arena::settled();

    arena.say(2, 200, &of_cluster("primary", "running", 9, "other", "7"));
    assert_eq!(arena.rule_of(2), Rule::WrongCluster);

    arena.follows(2, 5);
    assert_eq!(arena.rule_of(2), Rule::Follows);
}
