//! A build without `postgres-topology` says so where it would have to log in at PostgreSQL.

use heliosdb_proxy::{Config, ConfigBuilder};

fn refused(config: ConfigBuilder) -> String {
    let error = config.node("pg1", "10.0.0.11").build().unwrap_err();
    let source = std::error::Error::source(&error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

#[test]
fn whatever_logs_in_is_refused_in_words_and_the_rest_is_not() {
    let words = "this build has no postgres-topology and logs in nowhere; allowed is";
    let of = |provider: &str| Config::builder().set("topology.provider", provider);

    let postgres = refused(of("postgres").set("topology.user", "probe"));
    assert!(
        postgres.contains(&format!("topology.provider = \"postgres\": {words}")),
        "{postgres}"
    );
    let query = refused(
        of("static")
            .set("topology.user", "probe")
            .node("pg0", "10.0.0.10")
            .set("nodes[0].role", "primary"),
    );
    assert!(
        query.contains(&format!("topology.user = \"probe\": {words}")),
        "{query}"
    );
    of("manual").node("pg1", "10.0.0.11").build().unwrap();
}
