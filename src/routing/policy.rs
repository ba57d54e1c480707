//! Which of several: by turns, or where the fewest connections are. Both by weight.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::settings::Policy;

/// A node that may be dialled now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) addr: SocketAddr,
    /// Not 0.
    pub(super) weight: u32,
    /// Connections this process has there, dials under way included.
    pub(super) load: usize,
}

/// Smooth weighted round robin: at each turn everybody earns its weight, and who is served pays what all have earned.
/// With weights 2 and 1 that is A B A, and not A A B.
///
/// Source: nginx, `ngx_http_upstream_round_robin.c`.
#[derive(Debug, Default)]
pub(super) struct Turns(HashMap<SocketAddr, i64>);

/// Those of whom one is served: with round robin all, else those with the fewest connections for their weight.
pub(super) fn rivals(policy: Policy, candidates: &[Candidate]) -> Vec<Candidate> {
    let less = |a: &Candidate, b: &Candidate| {
        let crossed = |a: &Candidate, b: &Candidate| a.load as u128 * u128::from(b.weight);
        crossed(a, b).cmp(&crossed(b, a))
    };
    let least = match policy {
        Policy::RoundRobin => None,
        Policy::LeastConnections => candidates.iter().copied().min_by(less),
    };
    let is_rival = |c: &&Candidate| least.is_none_or(|least| less(c, &least).is_eq());
    candidates.iter().filter(is_rival).copied().collect()
}

impl Turns {
    /// Whose turn it is, without taking it.
    pub(super) fn next(&self, rivals: &[Candidate]) -> Option<SocketAddr> {
        let purse = |c: &Candidate| self.purse(c.addr) + i64::from(c.weight);
        // Of equals the first.
        let best = rivals.iter().rev().max_by_key(|c| purse(c));
        best.map(|c| c.addr)
    }

    /// Takes the turn. Whoever is no rival now starts anew when it is one again.
    pub(super) fn take(&mut self, rivals: &[Candidate], served: SocketAddr) {
        let all: i64 = rivals.iter().map(|c| i64::from(c.weight)).sum();
        let purses = rivals.iter().map(|c| {
            let paid = if c.addr == served { all } else { 0 };
            (c.addr, self.purse(c.addr) + i64::from(c.weight) - paid)
        });
        self.0 = purses.collect();
    }

    fn purse(&self, addr: SocketAddr) -> i64 {
        self.0.get(&addr).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(n: u8, weight: u32, load: usize) -> Candidate {
        Candidate {
            addr: ([10, 0, 0, n], 5432).into(),
            weight,
            load,
        }
    }

    /// Who is served in so many turns, as letters.
    fn served(turns: &mut Turns, count: usize, candidates: &[Candidate]) -> String {
        (0..count)
            .map(|_| {
                let rivals = rivals(Policy::RoundRobin, candidates);
                let addr = turns.next(&rivals).unwrap();
                turns.take(&rivals, addr);
                let at = candidates.iter().position(|c| c.addr == addr).unwrap();
                char::from(b'A' + at as u8)
            })
            .collect()
    }

    #[test]
    fn everybody_is_served_by_turns() {
        let three = [
            candidate(1, 100, 9),
            candidate(2, 100, 0),
            candidate(3, 100, 5),
        ];
        assert_eq!(served(&mut Turns::default(), 7, &three), "ABCABCA");
    }

    #[test]
    fn weights_are_shares_that_are_spread_out() {
        let three = [candidate(1, 4, 0), candidate(2, 2, 0), candidate(3, 1, 0)];
        assert_eq!(served(&mut Turns::default(), 14, &three), "ABACABAABACABA");
    }

    #[test]
    fn looking_takes_no_turn() {
        let two = [candidate(1, 1, 0), candidate(2, 1, 0)];
        let turns = Turns::default();
        assert_eq!(turns.next(&two), turns.next(&two));
    }

    #[test]
    fn who_comes_back_takes_its_turns_and_does_not_catch_up() {
        let both = [candidate(1, 1, 0), candidate(2, 1, 0)];
        let mut turns = Turns::default();
        served(&mut turns, 1000, &both[..1]);
        assert_eq!(served(&mut turns, 4, &both), "ABAB");
    }

    #[test]
    fn the_fewest_connections_for_its_weight_win_and_equals_take_turns() {
        let of = |candidates: &[Candidate]| {
            let rivals = rivals(Policy::LeastConnections, candidates);
            rivals
                .iter()
                .map(|c| c.addr.ip().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[candidate(1, 100, 2), candidate(2, 100, 1)]),
            ["10.0.0.2"]
        );
        assert_eq!(
            of(&[candidate(1, 100, 4), candidate(2, 50, 3)]),
            ["10.0.0.1"]
        );
        assert_eq!(
            of(&[
                candidate(1, 100, 4),
                candidate(2, 50, 2),
                candidate(3, 1, 9)
            ]),
            ["10.0.0.1", "10.0.0.2"]
        );
        assert_eq!(of(&[candidate(1, 1, 0), candidate(2, 9, 0)]).len(), 2);
    }

    #[test]
    fn nobody_is_nobody() {
        assert_eq!(Turns::default().next(&[]), None);
        assert!(rivals(Policy::LeastConnections, &[]).is_empty());
    }
}
