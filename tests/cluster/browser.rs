//! Chromium without a window, driven over its DevTools protocol: what a page shows, says and asks for.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::{SinkExt, StreamExt};
use nix::unistd::geteuid;
use serde_json::{Value, json};
use tokio::{net::TcpStream, runtime::Runtime, time::timeout};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use crate::lab::{install, poll};

/// For one command of the protocol, and for what a page is expected to show.
const PATIENCE: Duration = Duration::from_secs(30);

/// A browser with one page.
pub struct Browser {
    runtime: Runtime,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    child: Child,
    /// The one page's.
    session: String,
    next: u64,
    /// What the page has done and said since it was opened.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// For tests: the browser's program, or `None` (and a line that says so) where it cannot be had.
pub fn require(test: &str) -> Option<PathBuf> {
    match install::ensure_chromium() {
        Ok(program) => Some(program),
        Err(missing) if std::env::var_os("CI").is_some() => panic!("{test}: {missing}"),
        Err(missing) => {
            eprintln!("skipped {test}: {missing}");
            None
        }
    }
}

impl Browser {
    pub fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        if geteuid().is_root() {
            // Chromium refuses to sandbox root.
            command.arg("--no-sandbox");
        }
        let child = command
            .args([
                "--headless=new",
                "--remote-debugging-port=0",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = profile.path().join("DevToolsActivePort");
        let at = poll(PATIENCE, Duration::from_millis(50), || {
            let text = fs::read_to_string(&port).ok()?;
            let (port, path) = text.trim().split_once('\n')?;
            Some(format!("ws://127.0.0.1:{port}{path}"))
        })
        .expect("the browser opens its port");
        let runtime = Runtime::new().unwrap();
        let (socket, _) = runtime.block_on(connect_async(at)).unwrap();
        let mut browser = Self {
            runtime,
            socket,
            child,
            session: String::new(),
            next: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    pub fn open(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// Returns once the page is there again.
    pub fn reload(&mut self) {
        self.events.clear();
        self.call("Page.reload", json!({}));
        let loaded = poll(PATIENCE, Duration::from_millis(25), || {
            self.call("Page.getFrameTree", json!({}));
            let is_loaded = |event: &Value| event["method"] == "Page.loadEventFired";
            self.events.iter().any(is_loaded).then_some(())
        });
        loaded.expect("the page loads again");
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let wanted = json!({ "expression": expression, "returnByValue": true });
        let said = self.call("Runtime.evaluate", wanted);
        assert!(
            said["exceptionDetails"].is_null(),
            "{expression}: {}",
            said["exceptionDetails"]
        );
        said["result"]["value"].clone()
    }

    /// The text that people see of an element, empty where there is none.
    pub fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!(
            "(at => at?.checkVisibility() ? at.innerText : '')(document.querySelector({selector:?}))"
        ));
        text.as_str().unwrap().to_owned()
    }

    /// Waits until the text of an element holds all of these words.
    pub fn wait_for(&mut self, selector: &str, words: &[&str]) -> String {
        let found = poll(PATIENCE, Duration::from_millis(25), || {
            let text = self.text(selector);
            words.iter().all(|word| text.contains(word)).then_some(text)
        });
        found.unwrap_or_else(|| panic!("{selector} shows {:?}, not {words:?}", self.text(selector)))
    }

    pub fn size(&mut self, width: u32, height: u32, mobile: bool) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// `dark` or `light`, as the person has chosen for all pages.
    pub fn scheme(&mut self, word: &str) {
        let feature = json!([{ "name": "prefers-color-scheme", "value": word }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": feature }));
    }

    /// A key that is no letter, and what it writes.
    pub fn press(&mut self, key: &str, code: u32, writes: &str) {
        for kind in ["keyDown", "keyUp"] {
            let stroke = json!({
                "type": kind, "key": key, "code": key, "text": writes, "windowsVirtualKeyCode": code
            });
            self.call("Input.dispatchKeyEvent", stroke);
        }
    }

    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// The whole page, as a PNG file.
    pub fn picture(&mut self, file: &Path) {
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let taken = self.call("Page.captureScreenshot", whole);
        let png = BASE64_STANDARD
            .decode(taken["data"].as_str().unwrap())
            .unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, png).unwrap();
    }

    /// Errors in the console, exceptions, and what the page's policy has refused.
    pub fn complaints(&mut self) -> Vec<String> {
        self.value("0");
        let of = |event: &Value| {
            let said = &event["params"];
            let is_bad = match event["method"].as_str()? {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => {
                    ["error", "warning", "assert"].contains(&said["type"].as_str()?)
                }
                "Log.entryAdded" => {
                    ["error", "warning"].contains(&said["entry"]["level"].as_str()?)
                }
                _ => false,
            };
            is_bad.then(|| said.to_string())
        };
        self.events.iter().filter_map(of).collect()
    }

    /// Everything that the page has asked for.
    pub fn asked(&mut self) -> Vec<String> {
        self.value("0");
        let sent = |event: &Value| {
            (event["method"] == "Network.requestWillBeSent").then(|| {
                event["params"]["request"]["url"]
                    .as_str()
                    .map(str::to_owned)
            })?
        };
        self.events.iter().filter_map(sent).collect()
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let Self {
            runtime,
            socket,
            events,
            ..
        } = self;
        let exchange = async {
            let text = Message::text(command.to_string());
            socket.send(text).await.unwrap();
            loop {
                let Message::Text(text) = socket.next().await.unwrap().unwrap() else {
                    continue;
                };
                let said: Value = serde_json::from_str(&text).unwrap();
                if said["id"] == id {
                    return said;
                }
                events.push(said);
            }
        };
        let answered = runtime.block_on(async { timeout(PATIENCE, exchange).await });
        let answer = answered.unwrap_or_else(|_late| panic!("{method}: no answer"));
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
