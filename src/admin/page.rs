//! `GET /`: one page to look at, whole in one file; what it shows comes from `/events`.

use super::routes::{Ask, Reply};

pub(super) const HTML: &str = "text/html; charset=utf-8";

/// Only this very script and style run, it talks to nobody but us, and nobody may frame it.
pub(super) const POLICY: &str = concat!(
    "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; ",
    "frame-ancestors 'none'; require-trusted-types-for 'script'; ",
    "style-src 'sha256-KbgV9MVG9ooSOarSrZgYLNoQauJDOCQyzOcf2PvB2C0='; ",
    "script-src 'sha256-Y0j9YgolTH4KlxRaiNSsAeACItZBMi0ckS2K/BDgfxg='",
);

const PAGE: &str = include_str!("page.html");

pub(super) fn answer(_: &Ask<'_>) -> Reply {
    page()
}

/// There is nothing secret in it: without a token it asks for one.
pub(super) fn page() -> Reply {
    Reply::new(HTML, PAGE.to_owned())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    fn between(start: &str, end: &str) -> &'static str {
        let (_, rest) = PAGE.split_once(start).unwrap();
        rest.split_once(end).unwrap().0
    }

    #[test]
    fn the_policy_names_the_pages_own_style_and_script() {
        for (kind, start, end) in [
            ("style-src", "<style>", "</style>"),
            ("script-src", "<script>", "</script>"),
        ] {
            let hash = BASE64_STANDARD.encode(Sha256::digest(between(start, end)));
            let rule = format!("{kind} 'sha256-{hash}'");
            assert!(POLICY.contains(&rule), "page.html has changed: {rule}");
        }
    }

    #[test]
    fn the_page_asks_nobody_else_and_is_whole_in_itself() {
        for outside in [
            "https://",
            "src=",
            "@import",
            "url(",
            "innerHTML",
            " style=\"",
        ] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        // Names of formats, not addresses that are asked.
        let http = PAGE.matches("http://").count();
        assert_eq!(http, PAGE.matches("http://www.w3.org/2000/svg").count());
    }
}
