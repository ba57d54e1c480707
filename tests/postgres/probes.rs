//! Our own connections to a real PostgreSQL: every TLS mode, a client certificate, passwords that change.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heliosdb_proxy::{Config, House};
use serde_json::Value;

use super::server::{Stage, give};
use crate::fakes::PATIENCE;
use crate::fakes::cluster::Tempo;
use crate::fakes::papers::{Authority, replace};
use crate::lab::http;

const PASSWORD: &str = "hush, says the probe";
const LEADS: &str = "pg_is_in_recovery() = false, timeline 1";

/// A server with a certificate of a CA of ours, and what clients of it need.
struct Scene {
    stage: Stage,
    authority: Authority,
}

impl Scene {
    async fn set(test: &str) -> Option<Self> {
        let stage = Stage::set(test, &Tempo::default(), &[]).await?;
        let scene = Self {
            stage,
            authority: Authority::new("CA of the nodes"),
        };
        let address = scene.stage.server.ip().to_string();
        scene.certify(&[&address]);
        fs::write(scene.file("ca.pem"), scene.authority.pem()).unwrap();
        give(&scene.file("ca.pem"));
        let rules = scene.file("data/pg_hba.conf");
        let before = fs::read_to_string(&rules).unwrap();
        let ours = "hostssl all secured 127.0.0.0/8 scram-sha-256\n\
                    hostssl all certified 127.0.0.0/8 cert\n\
                    hostnossl all plain 127.0.0.0/8 trust\n";
        fs::write(&rules, format!("{ours}{before}")).unwrap();
        for sql in [
            format!(
                "ALTER SYSTEM SET ssl_key_file = '{}'",
                scene.file("server.key").display()
            ),
            format!(
                "ALTER SYSTEM SET ssl_cert_file = '{}'",
                scene.file("server.pem").display()
            ),
            format!(
                "ALTER SYSTEM SET ssl_ca_file = '{}'",
                scene.file("ca.pem").display()
            ),
            format!("CREATE ROLE secured LOGIN PASSWORD '{PASSWORD}'"),
            "CREATE ROLE certified LOGIN".to_owned(),
            "CREATE ROLE plain LOGIN".to_owned(),
        ] {
            scene.stage.straight(&sql);
        }
        scene.ssl("on");
        Some(scene)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.stage.folder().join(name)
    }

    /// The server shows a certificate for these names from its next reload on.
    fn certify(&self, names: &[&str]) {
        let (cert, key) = (self.file("server.pem"), self.file("server.key"));
        self.authority.issue("pg", names).write(&cert, &key);
        for file in [&cert, &key] {
            give(file);
            private(file);
        }
    }

    fn ssl(&self, word: &str) {
        self.stage
            .straight(&format!("ALTER SYSTEM SET ssl = {word}"));
        self.stage.straight("SELECT pg_reload_conf()");
        let since = Instant::now();
        while self.stage.straight("SHOW ssl") != word {
            assert!(since.elapsed() < PATIENCE, "{}", self.stage.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A proxy of its own that asks the server in this way.
    async fn proxy(&self, login: &str) -> Proxy {
        let server = self.stage.server;
        let text = format!(
            "admin_address = \"127.0.0.1:0\"\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
             [topology]\nprovider = \"postgres\"\npoll_interval_secs = 0.5\n{login}\n\
             [[nodes]]\nname = \"n1\"\nhost = \"{}\"\nport = {}\n",
            server.ip(),
            server.port()
        );
        let house = House::start(Config::from_toml(&text).unwrap())
            .await
            .unwrap();
        let admin = house.admin().unwrap();
        Proxy { house, admin }
    }

    /// A proxy that asks in this way is told this; whether in TLS, where anything.
    async fn expect(&self, login: &str, key: &str, words: &str) -> Option<bool> {
        let proxy = self.proxy(login).await;
        proxy.says(key, words).await;
        let ours = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                    WHERE application_name = 'helios-topology'";
        let seen = match &*self.stage.straight(ours) {
            "" => None,
            tls => Some(tls == "t"),
        };
        proxy.house.stop().await;
        let since = Instant::now();
        while !self.stage.straight(ours).is_empty() {
            assert!(
                since.elapsed() < PATIENCE,
                "a connection of ours is left behind"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        seen
    }
}

struct Proxy {
    house: House,
    admin: SocketAddr,
}

impl Proxy {
    /// Waits until what it says of the node contains these words.
    async fn says(&self, key: &str, words: &str) {
        let since = Instant::now();
        loop {
            let answer = http::get(self.admin, "/nodes/n1", Duration::from_secs(5)).unwrap();
            let said: &Value = &answer.json()[key];
            if said.to_string().contains(words) {
                return;
            }
            assert!(
                since.elapsed() < PATIENCE,
                "{key} is {said} and not {words}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn every_tls_mode_means_what_libpq_means_by_it() {
    let Some(scene) = Scene::set("probes' TLS modes").await else {
        return;
    };
    let password = scene.file("password");
    fs::write(&password, format!("{PASSWORD}\n")).unwrap();
    let secured = format!("user = \"secured\"\npassword_file = {password:?}");
    let ours = format!("ca_file = {:?}", scene.file("ca.pem"));
    fs::write(scene.file("other.pem"), Authority::new("Another CA").pem()).unwrap();
    let other = format!("ca_file = {:?}", scene.file("other.pem"));
    let as_secured = |mode: &str, more: &str| format!("{secured}\ntls_mode = \"{mode}\"\n{more}");

    let denied = "FATAL 28000: no pg_hba.conf entry";
    let ssl = scene
        .expect(&as_secured("disable", ""), "last_error", denied)
        .await;
    assert_eq!(ssl, None);
    for login in [
        secured.clone(),
        as_secured("prefer", ""),
        as_secured("require", ""),
        as_secured("verify-ca", &ours),
        as_secured("verify-full", &ours),
    ] {
        let ssl = scene.expect(&login, "evidence", LEADS).await;
        assert_eq!(ssl, Some(true), "{login}");
    }
    // The server takes this one in clear text only, which is good enough for `prefer`.
    let plain = scene.expect("user = \"plain\"", "evidence", LEADS).await;
    assert_eq!(plain, Some(false));
    let unbelieved = "shows a certificate that is not believed";
    let wrong = scene
        .expect(&as_secured("verify-ca", &other), "last_error", unbelieved)
        .await;
    assert_eq!(wrong, None);

    // The same CA, but the certificate names somebody else.
    scene.ssl("off");
    scene.certify(&["pg.example"]);
    scene.ssl("on");
    let ssl = scene
        .expect(&as_secured("verify-ca", &ours), "evidence", LEADS)
        .await;
    assert_eq!(ssl, Some(true));
    let wrong = scene
        .expect(&as_secured("verify-full", &ours), "last_error", unbelieved)
        .await;
    assert_eq!(wrong, None);

    scene.ssl("off");
    let plain = scene.expect("user = \"plain\"", "evidence", LEADS).await;
    assert_eq!(plain, Some(false));
    let none = "speaks no TLS, which topology.tls_mode demands";
    scene
        .expect(&as_secured("require", ""), "last_error", none)
        .await;
}

#[tokio::test]
async fn a_client_certificate_logs_in_where_it_is_asked_for() {
    let Some(scene) = Scene::set("probes' client certificate").await else {
        return;
    };
    let (cert, key) = (scene.file("probe.pem"), scene.file("probe.key"));
    scene.authority.issue("certified", &[]).write(&cert, &key);
    let full = format!(
        "user = \"certified\"\ntls_mode = \"verify-full\"\nca_file = {:?}",
        scene.file("ca.pem")
    );

    let login = format!("{full}\ncert_file = {cert:?}\nkey_file = {key:?}");
    let ssl = scene.expect(&login, "evidence", LEADS).await;

    assert_eq!(ssl, Some(true));
    scene.expect(&full, "last_error", "FATAL 28000").await;
}

#[tokio::test]
async fn a_changed_password_is_used_at_the_next_login_and_never_said() {
    let Some(scene) = Scene::set("probes' password").await else {
        return;
    };
    let password = scene.file("password");
    fs::write(&password, "wrong").unwrap();
    let login = format!("user = \"secured\"\npassword_file = {password:?}");
    let proxy = scene.proxy(&login).await;
    proxy
        .says("last_error", "FATAL 28P01: password authentication failed")
        .await;
    let said = http::get(proxy.admin, "/nodes", Duration::from_secs(5))
        .unwrap()
        .body;
    assert!(!said.contains("wrong"), "{said}");

    replace(&password, PASSWORD);

    proxy.says("evidence", LEADS).await;
    proxy.says("leader", "true").await;
    // What is known of it needs no privilege.
    let topology = http::get(proxy.admin, "/topology", Duration::from_secs(5))
        .unwrap()
        .json();
    assert_eq!(topology["authoritative"]["timeline"], 1, "{topology}");
    proxy.house.stop().await;
}
