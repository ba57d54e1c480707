//! REST over https: own CA, a client certificate required, certificates for addresses.

use std::{fs, thread, time::Duration};

use super::{
    doctor::assert_says,
    stage::{Stage, block_on, patroni_log},
};
use crate::lab::{Lab, NODES, client, papers::Authority};

#[test]
fn the_leader_is_followed_over_https_and_certificates_are_renewed_under_way() {
    let up = || Lab::builder().fast().https().up();
    let Some(stage) = Stage::set("https", up, "") else {
        return;
    };
    stage.change("switchover over https", |lab, old| {
        let to = lab.replicas()[0];
        assert_ne!(to, old);
        lab.switchover(to).unwrap();
    });
    the_doctor_tells_a_certificate_of_another_name(&stage);
    a_new_ca_drops_no_session(&stage);
    every_connection_is_ended_in_order(&stage);
}

fn the_doctor_tells_a_certificate_of_another_name(stage: &Stage) {
    stage.settle();
    let believed = "ok       n1 REST ";
    assert_says(&stage.proxy.file, believed, "nothing is wrong", 0);
    let elsewhere = stage.lab.folder().join("proxy/elsewhere.toml");
    let text = fs::read_to_string(&stage.proxy.file).unwrap();
    let named = "[rest]\nserver_name = \"elsewhere.example\"\n";
    fs::write(&elsewhere, text.replace("[rest]\n", named)).unwrap();

    assert_says(&elsewhere, "wrong    n1 REST ", "rest.server_name", 1);
}

/// First everybody believes both CAs, then all are signed by the new one, then only that is believed.
fn a_new_ca_drops_no_session(stage: &Stage) {
    let leader = stage.settle();
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let (old, new) = (stage.lab.authority().unwrap(), Authority::new("New CA"));
    let writers = stage.writers();
    block_on(async {
        let (session, connection) = client::config(stage.proxy.listens)
            .connect(tokio_postgres::NoTls)
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        let backend = || async {
            let row = session.query_one("SELECT pg_backend_pid()", &[]).await;
            row.unwrap().get::<_, i32>(0)
        };
        let before = backend().await;

        for (signer, trusted) in [
            (old, vec![old, &new]),
            (&new, vec![old, &new]),
            (&new, vec![&new]),
        ] {
            stage.lab.renew(signer, &trusted).unwrap();
            // Longer than a lease: what is still routed to has been asked with what is there now.
            tokio::time::sleep(Duration::from_secs(12)).await;
            assert_eq!(stage.settle(), leader);
        }

        assert_eq!(backend().await, before);
        drop(session);
        connection.await.unwrap().unwrap();
    });
    stage.assert_undisturbed("a new CA", &writers.stop());
    assert_eq!((stage.epoch(), stage.revoked()), (epoch, revoked));
    let log = stage.proxy_log();
    assert!(!log.contains("cannot be asked"), "{log}");
}

/// Patroni ends TLS in both directions and says at debug level when its peer did not. Nobody but the proxy asks now.
fn every_connection_is_ended_in_order(stage: &Stage) {
    let leader = stage.settle();
    let logs = || NODES.map(|node| stage.log_of(&patroni_log(node)));
    let before = logs().map(|log| log.len());
    thread::sleep(Duration::from_secs(12));
    for (node, (log, begin)) in NODES.into_iter().zip(logs().into_iter().zip(before)) {
        let since = &log[begin..];
        let asked = since.matches("GET /primary").count();
        assert!(
            asked >= if node == leader { 3 } else { 2 },
            "{node}: {since}"
        );
        for words in ["Failed to shutdown", "was reset", "Traceback"] {
            assert!(!since.contains(words), "{node}: {since}");
        }
    }
}
