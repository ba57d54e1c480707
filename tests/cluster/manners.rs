//! What thousands of questions leave in Patroni's logs: nothing.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use socket2::SockRef;

use super::stage::{SOON, Stage, patroni_log};
use crate::lab::{Lab, NODES, Node, poll, proxy::Proxy};

/// Polled as fast as the brake allows, so that no passing word of a node is missed either.
pub const EAGER: &str = "[health]\ncheck_interval_ms = 20\nactive_interval_ms = 20\n";

/// What Patroni writes when somebody goes away before the answer: a line for debugging since 4.1, tracebacks before.
pub const LEFT_EARLY: &[&str] = &["was reset", "BrokenPipe", "ConnectionReset"];

const QUESTIONS: f64 = 2000.0;

/// Of a healthy cluster: a PostgreSQL or an etcd that dies makes Patroni write tracebacks of its own.
pub fn thousands_of_questions_leave_nothing_in_the_logs(
    stage: &Stage,
    others: &[Proxy],
    logs: &Overheard<'_>,
) {
    let proxies = || others.iter().chain([&stage.proxy]);
    let asked = || -> f64 {
        proxies()
            .map(|proxy| proxy.metric("checks_total").unwrap())
            .sum()
    };
    let (began, before) = (Instant::now(), asked());
    // The brake makes a busy machine ask less.
    poll(Duration::from_secs(30), Duration::from_millis(500), || {
        (asked() - before >= QUESTIONS).then_some(())
    });
    let questions = asked() - before;
    eprintln!("{questions} questions in {:?}", began.elapsed());
    assert!(questions >= QUESTIONS / 4.0, "only {questions} questions");
    logs.assert_without(LEFT_EARLY);
    logs.assert_without(&["Traceback"]);
}

/// Patroni's logs from a moment on, with each request in them.
pub struct Overheard<'a> {
    lab: &'a Lab,
    from: [usize; 3],
}

impl<'a> Overheard<'a> {
    /// Lets Patroni log for debugging what its REST API does.
    pub fn begin(lab: &'a Lab) -> Self {
        let from = NODES.map(|node| {
            let file = lab.folder().join(node.to_string()).join("patroni.yml");
            let text = fs::read_to_string(&file).unwrap();
            let mut settings: Value = serde_json::from_str(&text).unwrap();
            settings["log"] = json!({ "loggers": { "patroni.api": "DEBUG" } });
            fs::write(&file, settings.to_string()).unwrap();
            let answer = lab.rest(node, "POST", "/reload", None).unwrap();
            assert_eq!(answer.status, 202, "{node}: {}", answer.body);
            let from = read(lab, node).len();
            let heard = poll(SOON, Duration::from_millis(50), || {
                read(lab, node)[from..].contains("API thread").then_some(())
            });
            assert!(heard.is_some(), "{node} does not log its requests");
            from
        });
        Self { lab, from }
    }

    pub fn assert_without(&self, words: &[&str]) {
        for (node, from) in NODES.into_iter().zip(self.from) {
            let log = read(self.lab, node);
            let lines: Vec<&str> = log[from..].lines().collect();
            let bad = |line: &&str| words.iter().any(|word| line.contains(word));
            if let Some(at) = lines.iter().position(bad) {
                let around = &lines[at.saturating_sub(5)..(at + 30).min(lines.len())];
                panic!("{node}: {}", around.join("\n"));
            }
        }
    }

    /// Else the silence of the logs would say nothing.
    pub fn assert_that_leaving_early_is_seen(&self) {
        let node = NODES[0];
        let seen = poll(SOON, Duration::from_millis(20), || {
            leave_early(self.lab.rest_at(node));
            let log = read(self.lab, node);
            let seen = LEFT_EARLY
                .iter()
                .any(|word| log[self.from[0]..].contains(word));
            seen.then_some(())
        });
        assert!(
            seen.is_some(),
            "{node} does not say that somebody left early"
        );
    }
}

/// Asks, and resets the connection instead of reading.
fn leave_early(at: SocketAddr) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(b"GET /primary HTTP/1.0\r\n\r\n").unwrap();
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

fn read(lab: &Lab, node: Node) -> String {
    fs::read_to_string(lab.folder().join(patroni_log(node))).unwrap_or_default()
}
