//! One client's stay: greet → route → dial → prologue → relay → goodbye.

mod settings;

pub(crate) use settings::{ListenerSettings, SessionSettings};
