//! The REST API over https: who is believed, what is said of the others, and files that are renewed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::daemon::{Daemon, PATIENCE, free, get, toml};
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::eventually;
use crate::fakes::papers::{Authority, Paper, replace};
use crate::fakes::patroni::{Patroni, Question};
use crate::fakes::tls;

/// One node that leads, and a folder with what the proxy is told to read.
struct Desk {
    cluster: Cluster,
    ca: Authority,
    folder: tempfile::TempDir,
}

impl Desk {
    /// `ca.pem` is the CA's that signs everything here.
    fn new() -> Self {
        let mut cluster = Cluster::start(1);
        cluster.lead_openly(0, 1);
        let desk = Self {
            cluster,
            ca: Authority::new("Lab CA"),
            folder: tempfile::tempdir().unwrap(),
        };
        replace(&desk.file("ca.pem"), &desk.ca.pem());
        desk
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn rest(&self) -> &Patroni {
        &self.cluster.nodes[0].rest
    }

    /// The node's address, as the proxy asks for it.
    fn ip(&self) -> String {
        self.cluster.nodes[0].ip.to_string()
    }

    /// For the node's address.
    fn good(&self) -> Paper {
        self.ca.issue("n1.example", &[&self.ip(), "n1.example"])
    }

    /// Puts a client certificate where the proxy reads it.
    fn hand_out(&self, paper: &Paper) {
        paper.write(&self.file("client.pem"), &self.file("client.key"));
    }

    /// With `ca.pem`, and with more lines of `[rest]`.
    async fn proxy(&self, more: &str) -> Running {
        let ca = self.file("ca.pem").display().to_string();
        self.proxy_with(&format!("scheme = 'https'\nca_file = '{ca}'\n{more}"))
            .await
    }

    async fn proxy_with_client_certificate(&self) -> Running {
        let (cert, key) = (self.file("client.pem"), self.file("client.key"));
        let (cert, key) = (cert.display(), key.display());
        self.proxy(&format!("cert_file = '{cert}'\nkey_file = '{key}'"))
            .await
    }

    async fn proxy_with(&self, rest: &str) -> Running {
        self.proxy_of("check", rest).await
    }

    async fn proxy_of(&self, provider: &str, rest: &str) -> Running {
        let admin = free();
        let tempo = Tempo {
            topology: format!("provider = '{provider}'"),
            ..Tempo::default()
        };
        let toml = self.cluster.toml_with(&tempo);
        let toml = toml.replacen("\"\"", &format!("\"{admin}\""), 1);
        let daemon = Daemon::start(&format!("{toml}\n[rest]\n{rest}\n"));
        daemon.told("READY").await;
        Running { daemon, admin }
    }
}

struct Running {
    daemon: Daemon,
    admin: SocketAddr,
}

impl Running {
    async fn ask(&self, path: &str) -> Value {
        let answer = get(self.admin, path).await;
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap()
    }

    async fn leads(&self) -> bool {
        self.ask("/topology").await["authoritative"]["valid"] == true
    }

    async fn wait_for_leader(&self, what: &str) {
        let came = tokio::time::timeout(PATIENCE, async {
            while !self.leads().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if came.await.is_err() {
            panic!("{what}: no leader; the log:\n{}", self.daemon.log());
        }
    }

    async fn last_error(&self) -> String {
        let nodes = self.ask("/nodes").await;
        let node = nodes.as_array().or(nodes["nodes"].as_array()).unwrap()[0].clone();
        node["last_error"].as_str().unwrap_or_default().to_owned()
    }

    /// Without those of the start, which are about the times of tests.
    fn warnings(&self) -> Vec<String> {
        let log = self.daemon.log();
        let loud = log
            .lines()
            .filter(|line| line.contains("WARN") || line.contains("ERROR"));
        loud.filter(|line| {
            !line.contains("write_timeout_secs") && !line.contains("max_connections = ")
        })
        .map(str::to_owned)
        .collect()
    }

    fn warnings_with(&self, words: &str) -> usize {
        let warnings = self.warnings();
        warnings.iter().filter(|line| line.contains(words)).count()
    }

    /// Waits until the node has been asked again so often that a second line would be there.
    async fn a_while(&self) {
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
}

#[tokio::test]
async fn a_private_ca_an_address_and_a_client_certificate_are_believed_and_sessions_are_resumed() {
    let desk = Desk::new();
    desk.rest().wears(tls::server(&desk.good(), Some(&desk.ca)));
    desk.hand_out(&desk.ca.issue("proxy", &[]));
    let proxy = desk.proxy_with_client_certificate().await;
    proxy.wait_for_leader("good certificates").await;

    // Files that were just written are read for each question, and begin new sessions.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let before = desk.rest().handshakes();
    desk.rest().after_questions(20).await;

    let handshakes = desk.rest().handshakes();
    let (full, resumed) = (
        handshakes.full - before.full,
        handshakes.resumed - before.resumed,
    );
    assert!(
        resumed >= 15 && full <= 2,
        "{handshakes:?} after {before:?}"
    );
    assert_eq!((handshakes.failed, desk.rest().cut_short()), (0, 0));
    assert!(proxy.warnings().is_empty(), "{:?}", proxy.warnings());
}

#[tokio::test]
async fn a_certificate_that_is_not_believed_is_one_line_an_episode_and_the_last_error() {
    let desk = Desk::new();
    let (ip, peer) = (desk.ip(), desk.rest().addr());
    let stranger = Authority::new("Other CA").issue("n1.example", &[&ip]);
    let ca = desk.file("ca.pem");
    let shows =
        format!("{peer} shows a certificate that is not believed: certificate \"n1.example\" of");
    let bad = [
        (
            desk.ca.expired("n1.example", &[&ip]),
            format!(
                "{shows} \"Lab CA\", expected for \"{ip}\", expired on Fri, 01 Jan 2021 00:00:00 GMT"
            ),
        ),
        (
            desk.ca.issue("n1.example", &["n1.example", "10.9.9.9"]),
            format!("{shows} \"Lab CA\", expected for \"{ip}\", is only for n1.example, 10.9.9.9"),
        ),
        (
            desk.ca.issue("n1.example", &[]),
            format!("{shows} \"Lab CA\", expected for \"{ip}\", has no subject alternative name"),
        ),
        (
            stranger,
            format!(
                "{shows} \"Other CA\", expected for \"{ip}\", is not signed by a CA of rest.ca_file = {ca:?}"
            ),
        ),
    ];
    desk.rest().wears(tls::server(&desk.good(), None));
    let proxy = desk.proxy("").await;
    proxy.wait_for_leader("a good certificate").await;
    for (paper, words) in &bad {
        for episode in 1..=2 {
            desk.rest().wears(tls::server(paper, None));
            let said = || proxy.warnings_with(words) == episode;
            assert!(
                eventually(PATIENCE, said).await,
                "{words}\n{}",
                proxy.daemon.log()
            );
            proxy.a_while().await;
            assert_eq!(
                proxy.warnings_with(words),
                episode,
                "{}",
                proxy.daemon.log()
            );
            assert!(proxy.last_error().await.contains(words));

            desk.rest().wears(tls::server(&desk.good(), None));
            desk.rest().after_questions(3).await;
        }
        assert_eq!(proxy.last_error().await, "");
    }
}

#[tokio::test]
async fn a_server_that_refuses_us_or_speaks_no_tls_is_named_once() {
    let desk = Desk::new();
    let peer = desk.rest().addr();
    let cert = desk.file("client.pem");
    desk.rest().wears(tls::server(&desk.good(), Some(&desk.ca)));

    let without = desk.proxy("").await;
    let words = format!(
        "{peer} wants a client certificate and none is configured: it says CertificateRequired"
    );
    without.daemon.logs(&words).await;
    without.a_while().await;
    assert_eq!(without.warnings_with(&words), 1, "{}", without.daemon.log());
    assert!(without.last_error().await.contains(&words));

    desk.hand_out(&Authority::new("Other CA").issue("proxy", &[]));
    let stranger = desk.proxy_with_client_certificate().await;
    let words =
        format!("{peer} does not accept our certificate (rest.cert_file = {cert:?}): it says ");
    stranger.daemon.logs(&words).await;
    stranger.a_while().await;
    assert_eq!(
        stranger.warnings_with(&words),
        1,
        "{}",
        stranger.daemon.log()
    );

    let plain = speaks_http().await;
    let https = toml("", free(), plain) + "\n[rest]\nscheme = 'https'\n";
    let proxy = Daemon::start(&https);
    let words = format!("{plain} does not speak TLS");
    let log = proxy.logs(&words).await;
    assert_eq!(log.matches(&words).count(), 1, "{log}");
}

/// A server that takes a ClientHello for a bad request.
async fn speaks_http() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.0 400 Bad request\r\n\r\n").await;
        }
    });
    address
}

#[tokio::test]
async fn renewed_files_are_used_at_the_next_question_and_bad_ones_leave_the_old() {
    let desk = Desk::new();
    let (old, new) = (Authority::new("Old CA"), Authority::new("New CA"));
    let by = |ca: &Authority| ca.issue("n1.example", &[&desk.ip()]);
    replace(&desk.file("ca.pem"), &old.pem());
    desk.hand_out(&old.issue("proxy", &[]));
    desk.rest().wears(tls::server(&by(&old), Some(&old)));
    let proxy = desk.proxy_with_client_certificate().await;
    proxy.wait_for_leader("the old CA").await;

    // The server's own, by the same CA.
    desk.rest().wears(tls::server(&by(&old), Some(&old)));
    desk.rest().after_questions(3).await;
    assert!(proxy.leads().await);

    // Half-written: the old one stays in use, and that is said once.
    let half = &new.pem()[..200];
    std::fs::write(desk.file("ca.pem"), half).unwrap();
    proxy.daemon.logs("what was read before stays in use").await;
    desk.rest().after_questions(3).await;
    assert_eq!(
        proxy.warnings_with("stays in use"),
        1,
        "{}",
        proxy.daemon.log()
    );

    // A bundle while both are in use, then only the new one.
    replace(&desk.file("ca.pem"), &format!("{}{}", old.pem(), new.pem()));
    desk.rest().wears(tls::server(&by(&new), Some(&old)));
    desk.rest().after_questions(3).await;
    replace(&desk.file("ca.pem"), &new.pem());
    desk.rest().after_questions(3).await;
    assert!(proxy.leads().await, "{}", proxy.daemon.log());

    // Our own certificate.
    desk.hand_out(&new.issue("proxy", &[]));
    desk.rest().wears(tls::server(&by(&new), Some(&new)));
    proxy.wait_for_leader("the new CA").await;
    desk.rest().after_questions(3).await;
    assert!(proxy.leads().await, "{}", proxy.daemon.log());
}

#[tokio::test]
async fn a_server_name_stands_for_every_node_and_a_given_self_signed_certificate_is_believed() {
    let desk = Desk::new();
    let paper = Paper::self_signed("patroni", &["patroni.example"]);
    replace(&desk.file("ca.pem"), &paper.cert);
    desk.rest().wears(tls::server(&paper, None));

    let by_name = desk.proxy("server_name = 'patroni.example'").await;
    by_name.wait_for_leader("server_name").await;

    let by_address = desk.proxy("").await;
    let words = format!(
        "expected for \"{}\", is only for patroni.example",
        desk.ip()
    );
    by_address.daemon.logs(&words).await;
    assert!(!by_address.leads().await);
}

#[tokio::test]
async fn a_login_is_sent_and_a_refused_one_is_silence_in_words() {
    let desk = Desk::new();
    let file = desk.file("password");
    // echo -n 'proxy:open sesame' | base64
    desk.rest().wants("Basic cHJveHk6b3BlbiBzZXNhbWU=");
    replace(&file, "open barley\n");

    let without = desk.proxy_with("").await;
    let words =
        "answered 401, it wants a login and none is configured (rest.username, rest.password_file)";
    without.daemon.logs(words).await;

    let login = format!("username = 'proxy'\npassword_file = '{}'", file.display());
    let with = desk.proxy_with(&login).await;
    let words = format!(
        "answered 401, it does not accept the user \"proxy\" with the password of rest.password_file = {file:?}"
    );
    with.daemon.logs(&words).await;
    with.a_while().await;
    assert_eq!(with.warnings_with(&words), 1, "{}", with.daemon.log());
    assert!(with.last_error().await.contains(&words));
    assert!(!with.leads().await);

    replace(&file, "open sesame\n");
    with.wait_for_leader("the right password").await;
    let log = with.daemon.log();
    assert!(
        !log.contains("barley") && !log.contains("sesame") && !log.contains("Basic "),
        "{log}"
    );
}

#[tokio::test]
async fn a_start_without_a_named_file_says_which_and_ends_with_2() {
    let rest = "[rest]\nscheme = 'https'\nca_file = '/no/such/ca.pem'";
    let mut daemon = Daemon::start(&format!("{}\n{rest}\n", toml("", free(), free())));

    assert_eq!(daemon.ended().await.code(), Some(2));
    let words = "rest.ca_file = \"/no/such/ca.pem\": cannot be read: No such file or directory";
    assert!(daemon.log().contains(words), "{}", daemon.log());
}

#[tokio::test]
async fn a_reload_takes_on_https_as_a_whole_or_not_at_all() {
    let desk = Desk::new();
    let proxy = desk.proxy_with("").await;
    proxy.wait_for_leader("http").await;
    let plain = std::fs::read_to_string(&proxy.daemon.file).unwrap();
    let with = |ca: &str| {
        let ca = desk.file(ca).display().to_string();
        format!("{plain}scheme = 'https'\nca_file = '{ca}'\n")
    };

    proxy.daemon.hang_up(Some(&with("absent.pem")));
    let status = proxy.daemon.says("reload failed").await;
    assert!(status.contains("rest.ca_file = "), "{status}");
    desk.rest().after_questions(3).await;
    assert!(proxy.leads().await);

    desk.rest().wears(tls::server(&desk.good(), None));
    proxy.daemon.hang_up(Some(&with("ca.pem")));
    proxy.daemon.says("; reloaded").await;
    desk.rest().after_questions(3).await;
    assert!(proxy.leads().await, "{}", proxy.daemon.log());
}

#[tokio::test]
async fn the_clusters_own_view_is_asked_for_over_https_and_with_the_login_too() {
    let desk = Desk::new();
    // echo -n 'proxy:open sesame' | base64
    let login = "Basic cHJveHk6b3BlbiBzZXNhbWU=";
    desk.rest().wears(tls::server(&desk.good(), None));
    desk.rest().wants(login);
    replace(&desk.file("password"), "open sesame\n");
    let [ca, password] = ["ca.pem", "password"].map(|name| desk.file(name));
    let rest = format!(
        "scheme = 'https'\nca_file = {ca:?}\nusername = 'proxy'\npassword_file = {password:?}"
    );

    let proxy = desk.proxy_of("patroni", &rest).await;
    proxy.wait_for_leader("the provider patroni").await;

    let questions = desk.rest().questions();
    assert!(questions.iter().any(|asked| asked.path == "/cluster"));
    let known = |asked: &Question| asked.authorization.as_deref() == Some(login);
    assert!(questions.iter().all(known), "{questions:?}");
    assert_eq!(desk.rest().handshakes().failed, 0);
}

#[tokio::test]
async fn a_slow_handshake_is_not_the_nodes_own_time_and_brakes_nothing() {
    let mut desk = Desk::new();
    desk.cluster.nobody();
    let good = tls::server(&desk.good(), None);
    desk.rest().wears_slowly(good, Duration::from_millis(100));
    let _proxy = desk.proxy("").await;

    // 25 times 100 ms would be one in a second, or two.
    let often = || {
        let a_second_ago = Instant::now() - Duration::from_secs(1);
        desk.rest().asked("/primary", a_second_ago) >= 5
    };
    assert!(eventually(PATIENCE, often).await);
}
