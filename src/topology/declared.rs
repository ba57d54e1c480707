//! Provider `static`: the configuration says what a node is, the node itself only whether it is well.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::answer::{Answer, Role, State};
use super::kept::{CONNECT_MOST, Keeper, Kept, Look};
use super::source::{Observe, Told};
use super::{NoAnswer, NodeRole, Place};
use crate::backend::LoginSettings;

/// How nodes show that they are well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticSettings {
    /// At rest each node is asked so often.
    pub(crate) check_interval: Duration,
    /// `None`: it is enough that the node accepts a connection.
    pub(crate) query: Option<(LoginSettings, Arc<str>)>,
}

/// One node as it is declared.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    role: NodeRole,
    health: Health,
}

#[derive(Clone, Debug)]
enum Health {
    Accepts { connect_limit: Duration },
    Answers { keeper: Keeper, query: Arc<str> },
}

impl Declared {
    /// `check` is asked, where there is one; else it is enough that the node accepts a connection.
    pub(super) fn new(
        role: NodeRole,
        check: Option<(Keeper, Arc<str>)>,
        check_interval: Duration,
    ) -> Self {
        let health = match check {
            Some((keeper, query)) => Health::Answers { keeper, query },
            None => Health::Accepts {
                connect_limit: check_interval.min(CONNECT_MOST),
            },
        };
        Self { role, health }
    }

    fn answer(&self, well: &str) -> Answer {
        let (status, role) = match self.role {
            NodeRole::Primary => (200, Role::Primary),
            NodeRole::Auto | NodeRole::Standby | NodeRole::Replica => (503, Role::Replica),
        };
        let mut answer = Answer::of(status, role, State::Running);
        if self.role == NodeRole::Auto {
            // Nobody has declared anything.
            answer.role = None;
            answer.words = Some(well.into());
            return answer;
        }
        answer.words = Some(format!("{} by configuration, {well}", self.role.word()).into());
        answer
    }
}

impl Observe for Declared {
    async fn observe(&self, mut place: Place) -> Result<Told, NoAnswer> {
        match &self.health {
            Health::Answers { keeper, .. } => keeper.ask(place, self).await,
            Health::Accepts { connect_limit } => {
                let limit = (*connect_limit).min(place.limit);
                // Without a byte: PostgreSQL has nothing to log about it.
                match timeout(limit, place.connect()).await {
                    Ok(connected) => Ok(Told {
                        from: connected?.1,
                        own_time: Duration::ZERO,
                        said: Ok(self.answer("accepts connections")),
                    }),
                    Err(_elapsed) => Err(NoAnswer::NotConnected { limit }),
                }
            }
        }
    }
}

impl Look for Declared {
    async fn look(&self, kept: &Kept) -> Result<Answer, NoAnswer> {
        if let Health::Answers { query, .. } = &self.health {
            kept.link.row(query).await?;
        }
        Ok(self.answer("answers check_query"))
    }
}
