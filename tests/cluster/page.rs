//! The page in a real browser, in front of a real cluster.

use std::{
    fs,
    path::{Path, PathBuf},
};

use heliosdb_proxy::{Config, House};
use nix::{sys::signal::Signal, unistd::Pid};
use serde_json::json;

use super::browser::{self, Browser};
use super::stage::Stage;
use crate::lab::{Lab, process};

const WIDTHS: [(&str, u32, bool); 2] = [("desktop", 1200, false), ("phone", 390, true)];

/// Pictures for people, kept with what else was built.
fn picture(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_helios-proxy"));
    let target = target.ancestors().nth(2).unwrap();
    target.join("page").join(format!("{name}.png"))
}

#[test]
fn the_page_shows_the_old_leader_then_the_new_one_and_says_when_nobody_answers() {
    let Some(chromium) = browser::require("page") else {
        return;
    };
    let up = || Lab::builder().fast().up();
    let Some(stage) = Stage::set("page", up, "") else {
        return;
    };
    let old = stage.settle().to_string();
    let origin = format!("http://{}/", stage.proxy.admin);
    let mut page = Browser::start(&chromium);
    page.size(1200, 1400, false);
    page.open(&origin);
    let writers = stage.writers();

    page.wait_for("#who", &[&old]);
    page.wait_for("#link", &["live"]);
    page.wait_for(".node.leads", &[&old, "leader", "last "]);
    page.wait_for("#secs", &[" s"]);
    let change = stage.change("switchover under the eyes of the page", |lab, _old| {
        lab.switchover(lab.replicas()[0]).unwrap();
    });
    let new = change.new.to_string();
    page.wait_for("#who", &[&new]);
    page.wait_for(".node.leads", &[&new, "leader"]);
    page.wait_for("#changes", &[&old, &new, "to the first session"]);
    let said = page.value("document.getElementById('say').textContent");
    assert_eq!(
        said.as_str().unwrap(),
        format!("The leader is now {new}, epoch {}", stage.epoch())
    );
    drop(writers);

    it_fits_and_is_legible(&mut page);
    it_can_be_used_without_a_mouse(&mut page);
    assert_eq!(page.complaints(), [""; 0]);
    let foreign: Vec<_> = page.asked();
    let foreign = foreign
        .iter()
        .filter(|url| !url.starts_with(&origin) && !url.starts_with("data:"));
    assert_eq!(foreign.count(), 0, "{:?}", page.asked());
    it_says_when_the_daemon_is_gone_and_comes_back(&stage, &mut page);
}

fn it_fits_and_is_legible(page: &mut Browser) {
    for (name, width, mobile) in WIDTHS {
        page.size(width, 1400, mobile);
        for scheme in ["light", "dark"] {
            page.scheme(scheme);
            page.value("0");
            let wide = page.value("document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64() <= Some(0), "{name}: {wide} px too wide");
            let weak = page.value(CONTRAST);
            assert_eq!(weak, json!([]), "{name}, {scheme}: too little contrast");
            page.picture(&picture(&format!("{name}-{scheme}")));
        }
    }
    page.size(1200, 1400, false);
    page.scheme("light");
}

/// WCAG's contrast of each visible text with the plain ground behind it, where that is below 4.5.
const CONTRAST: &str = r"(() => {
  const parse = c => { const n = c.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = ([r, g, b]) => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const weak = [];
  for (const at of document.querySelectorAll('body *')) {
    const own = [...at.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || at.closest('script,style,[hidden],.unseen,.skip') || !at.getClientRects().length) continue;
    let ground = at, color;
    for (; ground; ground = ground.parentElement) {
      color = parse(getComputedStyle(ground).backgroundColor);
      if (color[3] === 1) break;
    }
    const a = light(parse(getComputedStyle(at).color)), b = light(color);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) weak.push(at.textContent.trim().slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return weak;
})()";

fn it_can_be_used_without_a_mouse(page: &mut Browser) {
    page.press("Tab", 9, "");
    let first = page.value("document.activeElement.className");
    assert_eq!(first, json!("skip"), "the first stop of the Tab key");
    let nameless = page.value(
        "[...document.querySelectorAll('[role=img],[role=progressbar],input,section')]
           .filter(at => !at.ariaLabel && !at.labels?.length).length",
    );
    assert_eq!(nameless, json!(0), "elements without a name");
    let headings = page.value("document.querySelectorAll('h1').length");
    assert_eq!(headings, json!(1));
}

fn it_says_when_the_daemon_is_gone_and_comes_back(stage: &Stage, page: &mut Browser) {
    let daemon = Pid::from_raw(i32::try_from(stage.proxy.pid()).unwrap());
    process::signal(&[daemon], Signal::SIGSTOP);
    page.wait_for("#alarm", &["has not been heard"]);
    page.wait_for("#link", &["gone for"]);
    page.picture(&picture("gone"));

    process::signal(&[daemon], Signal::SIGCONT);
    page.wait_for("#link", &["live"]);
    assert_eq!(page.text("#alarm"), "");
}

#[test]
fn off_loopback_the_page_asks_for_the_token_and_keeps_it() {
    let Some(chromium) = browser::require("page token") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "open sesame\n").unwrap();
    let text = format!(
        "admin_address = '0.0.0.0:0'\nadmin_token_file = {token:?}\n\
         listeners = [{{ address = '127.0.0.1:0' }}]\nnodes = [{{ name = 'n1', host = '127.0.0.1', rest_port = 1 }}]"
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let house = House::start(Config::from_toml(&text).unwrap());
    let house = runtime.block_on(house).unwrap();
    let mut page = Browser::start(&chromium);
    page.open(&format!(
        "http://127.0.0.1:{}/",
        house.admin().unwrap().port()
    ));

    page.wait_for("#key", &["needs the admin token"]);
    assert_eq!(page.text("#who"), "", "nothing is shown before");
    page.picture(&picture("token"));
    page.type_text("wrong");
    page.press("Enter", 13, "\r");
    page.wait_for("#wrong", &["not the token"]);
    page.type_text("open sesame");
    page.press("Enter", 13, "\r");
    page.wait_for("#who", &["node has proved that it leads"]);

    page.reload();
    page.wait_for("#who", &["node has proved that it leads"]);
    let kept = page.value("[localStorage.length, document.cookie].join()");
    assert_eq!(kept, json!("0,"), "it stays in this tab only");
    runtime.block_on(house.stop());
}
