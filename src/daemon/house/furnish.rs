//! The house before its threads run: what it holds, and the channels between it and them.

use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{House, State};
use crate::clock::Clock;
use crate::config::Config;
use crate::daemon::opening::Door;
use crate::daemon::threads::Threads;
use crate::daemon::window::{Window, WindowNow};
use crate::metrics::Metrics;
use crate::net::descriptor_limit;
use crate::primary_tracker::{Demand, Ears, Operator, Picture, Progress};
use crate::routing::Router;
use crate::session::{Command, Shared};
use crate::topology::{Rest, Sources};

/// More than a reload of many listeners says at once.
const COMMANDS: usize = 1024;
/// Where the kernel does not tell its limit of open files.
const DESCRIPTORS: u64 = 1024;

/// The ends of the house's channels that its threads hold.
pub(super) struct Ends {
    pub(super) picture: watch::Sender<Picture>,
    pub(super) ears: Ears,
    pub(super) window: Option<WindowNow>,
    pub(super) commands: mpsc::Receiver<Command>,
}

impl House {
    pub(super) fn furnish(
        config: Config,
        rest: Rest,
        source: Sources,
        admin: Option<Door>,
    ) -> (Self, Ends) {
        let clock = Clock::Boot;
        let metrics = Arc::new(Metrics::new());
        let demand = Demand::new(clock);
        let (publish, picture) = watch::channel(Picture::blank());
        let (rung_by, rung) = watch::channel(None);
        let threads = Threads {
            stop: CancellationToken::new(),
            rung: rung_by,
        };
        let (orders, heard) = mpsc::channel(4);
        let (operator, told) = Operator::new();
        let (succession, successions) = mpsc::channel(1);
        let (worker, commands) = mpsc::channel(COMMANDS);
        let (routing, routing_now) = watch::channel(config.routing.clone());
        let (session, session_now) = watch::channel(config.session.clone());
        let (window, window_now) = Window::new(&config);
        let router = Router::new(
            clock,
            picture.clone(),
            routing_now,
            Arc::clone(&demand),
            Arc::clone(&metrics),
        );
        let shared = Shared::new(
            Arc::new(router),
            Arc::clone(&metrics),
            session_now,
            descriptor_limit().unwrap_or(DESCRIPTORS),
        );
        let house = Self {
            clock,
            picture,
            demand,
            metrics,
            progress: Progress::default(),
            orders,
            operator,
            succession,
            shared,
            worker,
            doors: CancellationToken::new(),
            window_closed: threads.stop.child_token(),
            draining: threads.stop.child_token(),
            drained: CancellationToken::new(),
            routing,
            session,
            window,
            state: Mutex::new(State {
                open: Vec::new(),
                admin,
                rest: Arc::new(rest),
                source: Arc::new(source),
                config,
            }),
            threads,
            handles: Mutex::new(Vec::new()),
            rung,
        };
        let ends = Ends {
            picture: publish,
            ears: Ears {
                orders: heard,
                operator: told,
                succession: successions,
            },
            window: window_now,
            commands,
        };
        (house, ends)
    }
}
