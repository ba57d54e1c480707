//! Another configuration under way: all of it or nothing.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{House, State, tracker_orders};
use crate::config::{Config, Diff, diff, in_effect};
use crate::daemon::opening::{self, OpenListener, Opened};
use crate::daemon::outcome::{FileFailed, ReloadError, ReloadReport};
use crate::metrics::ReloadLabel;
use crate::net::Inherited;
use crate::primary_tracker::{Fault, Order};
use crate::session::Command;
use crate::topology::{Rest, Sources};

impl House {
    /// Takes on another configuration as a whole: listeners that stay the same are untouched, a removed one drains,
    /// a removed node gets no new sessions. In effect when this returns.
    ///
    /// # Errors
    /// See [`ReloadError`]: then nothing has changed.
    pub async fn reload(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        let (obeyed, done) = oneshot::channel();
        let may_play = self.may_play();
        let result = self.swap(config, obeyed);
        self.note_reload(result.is_ok());
        if result.is_ok() {
            // Gone only with the tracker, whose end is noticed elsewhere.
            let _ = done.await;
        }
        if may_play && !self.may_play() {
            // What is played now could be ended by nobody any more. Refused only by a tracker that is gone.
            let _ = self.operator.tell(Order::Chaos(Fault::Reset)).await;
        }
        result
    }

    pub(super) fn may_play(&self) -> bool {
        let state = self.state();
        state.config.admin.as_ref().is_some_and(|a| a.enable_chaos)
    }

    /// Counts a reload whose file was refused before it came here.
    pub(crate) fn reload_refused(&self) {
        self.note_reload(false);
    }

    fn note_reload(&self, ok: bool) {
        let result = if ok { "ok" } else { "failed" };
        self.metrics
            .config_reloads
            .get_or_create(&ReloadLabel { result })
            .inc();
    }

    /// First everything that can fail, then everything that cannot.
    fn swap(
        &self,
        config: Config,
        obeyed: oneshot::Sender<()>,
    ) -> Result<ReloadReport, ReloadError> {
        let mut state = self.state();
        let changes = diff(&state.config, &config);
        let report = report(&changes);
        let config = in_effect(&state.config, config);
        let (rest, source) = files(&state, &config)?;
        let opened = opening::open_all(&changes.listeners_added, &mut Inherited::default())?;
        let orders = self
            .orders
            .try_reserve()
            .map_err(|_full_or_closed| ReloadError::Busy)?;
        orders.send((tracker_orders(&config, &rest, &source), obeyed));
        self.routing.send_replace(config.routing.clone());
        self.session.send_replace(config.session.clone());
        self.listen(&mut state, opened);
        self.change_listeners(&mut state, changes);
        state.rest = rest;
        state.source = source;
        state.config = config;
        if let Some(window) = &self.window {
            window.show(&state.config);
        }
        Ok(report)
    }

    pub(super) fn listen(&self, state: &mut State, opened: Vec<Opened>) {
        for Opened { listener, sockets } in opened {
            self.tell(listener.serve(sockets));
            state.open.push(listener);
        }
    }

    /// A removed one drains, a changed one goes on with what it has open.
    fn change_listeners(&self, state: &mut State, changes: Diff) {
        for address in &changes.listeners_removed {
            let is_removed = |l: &OpenListener| l.settings.address == *address;
            if let Some(at) = state.open.iter().position(is_removed) {
                let address = state.open.remove(at).door.retire();
                self.tell(Command::Unlisten(address));
            }
        }
        for settings in changes.listeners_changed {
            let is_changed = |l: &&mut OpenListener| l.settings.address == settings.address;
            if let Some(listener) = state.open.iter_mut().find(is_changed) {
                listener.settings = settings;
                self.tell(listener.serve(Vec::new()));
            }
        }
    }
}

/// Files that the configuration names as before stay open: TLS sessions are resumed.
fn files(state: &State, config: &Config) -> Result<(Arc<Rest>, Arc<Sources>), FileFailed> {
    let rest = if state.config.rest == config.rest {
        Arc::clone(&state.rest)
    } else {
        Arc::new(Rest::open(config.rest.clone())?)
    };
    let source = if state.config.source == config.source {
        Arc::clone(&state.source)
    } else {
        Arc::new(Sources::open(config.source.clone())?)
    };
    Ok((rest, source))
}

fn report(changes: &Diff) -> ReloadReport {
    let needs_restart = changes.needs_restart.iter();
    ReloadReport {
        changes: changes.in_words(),
        needs_restart: needs_restart.map(|key| (*key).to_owned()).collect(),
    }
}
