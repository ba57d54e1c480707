//! `GET /version`: what runs here.

use hyper::StatusCode;
use serde_json::json;

use super::routes::{Ask, Reply};

pub(super) fn answer(_: &Ask<'_>) -> Reply {
    let version = json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
    });
    Reply::json(StatusCode::OK, &version)
}
