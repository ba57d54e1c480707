//! What a client would get now, for people who ask: the choice without turns, dials and doors.

use std::sync::Arc;

use super::choice::prefer;
use super::decide::{NoRoute, leader, read_at};
use super::pool::{member, pool};
use super::settings::Fallback;
use super::{Intent, Target};
use crate::clock::BootTime;
use crate::primary_tracker::Picture;

/// A read client gets one of several nodes; a writer the leader.
#[derive(Clone, Debug)]
pub(crate) struct Outlook {
    /// Empty while a client would wait.
    pub(crate) targets: Vec<Target>,
    /// Why it would wait.
    pub(crate) waits: Option<&'static str>,
    /// Who is not read from, and why.
    pub(crate) left_out: Vec<(Arc<str>, &'static str)>,
}

const NO_REPLICA: &str = "no replica may be read from, and the leader may not stand in";
const OTHERS_STREAM: &str = "does not stream while others do";

pub(crate) fn outlook(intent: &Intent, picture: &Picture, now: BootTime) -> Outlook {
    if intent.route.writes() {
        return at_the_leader(intent, picture, now, Vec::new());
    }
    let mut members: Vec<_> = pool(intent, picture, now).collect();
    prefer(&mut members, |member| member.is_live);
    let chosen: Vec<_> = members.iter().map(|member| &member.node.name).collect();
    let nodes = picture.nodes.iter();
    let left_out = nodes.filter(|node| !chosen.contains(&&node.name));
    let left_out = left_out.map(|node| {
        let why = match member(intent, picture, node, now) {
            Ok(_second_choice) => OTHERS_STREAM,
            Err(out) => out.in_words(),
        };
        (Arc::clone(&node.name), why)
    });
    let left_out = left_out.collect();
    if !members.is_empty() {
        let targets = members
            .iter()
            .map(|member| read_at(*intent, picture, member));
        return Outlook {
            targets: targets.collect(),
            waits: None,
            left_out,
        };
    }
    match intent.reads.fallback {
        Fallback::Leader => at_the_leader(intent, picture, now, left_out),
        Fallback::None => Outlook {
            targets: Vec::new(),
            waits: Some(NO_REPLICA),
            left_out,
        },
    }
}

fn at_the_leader(
    intent: &Intent,
    picture: &Picture,
    now: BootTime,
    left_out: Vec<(Arc<str>, &'static str)>,
) -> Outlook {
    let (targets, waits) = match leader(*intent, picture, now) {
        Ok(target) => (vec![target], None),
        Err(NoRoute::NoLeader(why)) => (Vec::new(), Some(why.in_words())),
        Err(_) => (Vec::new(), Some(NO_REPLICA)),
    };
    Outlook {
        targets,
        waits,
        left_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primary_tracker::NodePicture;
    use crate::routing::Route;
    use crate::routing::testing::{lease, nobody};
    use crate::topology::Feed;

    const NOW: BootTime = BootTime::ZERO;

    /// The leader and two replicas that stream.
    fn three() -> Picture {
        let mut picture = nobody();
        let node = |n: u8| {
            let mut node: NodePicture = picture.nodes[0].clone();
            node.name = format!("node{n}").into();
            node.reading.addr = Some(([127, 0, 0, n], 5432).into());
            node.reading.feed = (n != 1).then_some(Feed::Streaming);
            node.leader = n == 1;
            node
        };
        picture.nodes = [node(1), node(2), node(3)].into();
        picture.lease = Some(lease(([127, 0, 0, 1], 5432).into(), 1, NOW));
        picture.why = None;
        picture
    }

    fn change(picture: &mut Picture, at: usize, change: impl Fn(&mut NodePicture)) {
        let mut nodes = picture.nodes.to_vec();
        change(&mut nodes[at]);
        picture.nodes = nodes.into();
    }

    fn of(route: Route) -> Intent {
        Intent {
            route,
            ..Intent::default()
        }
    }

    fn names(outlook: &Outlook) -> Vec<&str> {
        outlook.targets.iter().map(|target| &*target.name).collect()
    }

    #[test]
    fn a_writer_gets_the_leader_a_reader_one_of_the_replicas_and_anybody_all() {
        let picture = three();

        assert_eq!(
            names(&outlook(&of(Route::Primary), &picture, NOW)),
            ["node1"]
        );
        let reader = outlook(&of(Route::Replica), &picture, NOW);
        assert_eq!(names(&reader), ["node2", "node3"]);
        assert_eq!(reader.left_out, [("node1".into(), "no running replica")]);
        let any = outlook(&of(Route::Any), &picture, NOW);
        assert_eq!(names(&any), ["node1", "node2", "node3"]);
    }

    #[test]
    fn whoever_does_not_stream_is_told_as_second_choice() {
        let mut picture = three();
        change(&mut picture, 2, |node| node.reading.feed = Some(Feed::Dry));

        let reader = outlook(&of(Route::Replica), &picture, NOW);

        assert_eq!(names(&reader), ["node2"]);
        assert_eq!(reader.left_out[1], ("node3".into(), OTHERS_STREAM));
    }

    #[test]
    fn the_leader_stands_in_or_the_reader_waits() {
        let mut picture = three();
        for at in [1, 2] {
            change(&mut picture, at, |node| node.up = false);
        }

        let stood_in = outlook(&of(Route::Replica), &picture, NOW);
        assert_eq!(names(&stood_in), ["node1"]);
        assert!(stood_in.targets[0].is_fallback);

        let mut strict = of(Route::Replica);
        strict.reads.fallback = Fallback::None;
        let waits = outlook(&strict, &picture, NOW);
        assert_eq!((names(&waits), waits.waits), (vec![], Some(NO_REPLICA)));

        picture.lease = None;
        let waits = outlook(&of(Route::Replica), &picture, NOW);
        assert_eq!(waits.waits, Some("no node has proved that it leads"));
    }
}
