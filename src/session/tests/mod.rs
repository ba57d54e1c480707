//! Sessions on real loopback sockets, with a tracker that the test plays.

mod drain;
mod elder;
mod forward;
mod hold;
mod moves;
mod pair;
mod parcels;
mod random_moves;
mod stand;
mod waiting;

/// What a future of `make`'s takes.
fn size<A, F: Future>(_: impl Fn(A) -> F) -> usize {
    std::mem::size_of::<F>()
}

#[test]
fn an_idle_session_costs_less_than_a_kilobyte_and_a_half() {
    let relay = size(super::relay::Relay::run);
    assert!(relay < 1024, "{relay} bytes");
    let place = std::mem::size_of::<super::registry::Place>();
    assert!(relay + place < 1536, "{relay} and {place} bytes");
}

#[test]
fn a_held_client_costs_less_than_four_kilobytes() {
    let stay = size(|(worker, listener, client, descriptor, alive)| {
        super::stay::stay(worker, listener, client, descriptor, alive)
    });
    assert!(stay < 4096, "{stay} bytes");
}
