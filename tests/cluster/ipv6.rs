//! A cluster that speaks IPv6 alone.

use super::stage::Stage;
use crate::lab::{self, Lab, Net};

#[test]
fn a_cluster_without_ipv4_is_followed_all_the_same() {
    if !lab::require_root("ipv6") {
        return;
    }
    let up = || Lab::builder().net(Net::Loopback6).fast().up();
    let Some(stage) = Stage::set("ipv6", up, "") else {
        return;
    };
    assert!(stage.proxy.listens.is_ipv6() && stage.proxy.admin.is_ipv6());

    let change = stage.change("switchover on IPv6", |lab, _old| {
        lab.switchover(lab.replicas()[1]).unwrap();
    });

    assert!(stage.lab.ip(change.new).is_ipv6());
    assert_eq!(stage.write_one(), stage.written_at(change.new));
}
