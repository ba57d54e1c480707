//! Looking at the cluster: questions, answers, evidence, cadence. Decides nothing.

mod answer;
mod asked;
mod cadence;
mod chaos;
mod declared;
mod dynamic;
mod evidence;
mod kept;
mod news;
mod place;
mod poller;
mod probe;
mod provider;
mod question;
mod rest;
mod settings;
mod source;
mod url;
mod view;
mod views;
mod witness;

pub(crate) use answer::{Answer, Feed, Role};
pub(crate) use asked::Found;
pub(crate) use cadence::Pace;
pub(crate) use chaos::Chaos;
pub(crate) use declared::StaticSettings;
pub(crate) use dynamic::Dynamic;
pub(crate) use evidence::{Evidence, Standing, Worth, judge};
pub(crate) use news::{Heard, News, NodeId, Observation, Silence, Stands};
pub(crate) use place::Place;
pub(crate) use poller::Poller;
pub(crate) use probe::ProbeSettings;
pub(crate) use question::{NoAnswer, Question, Reply, ask};
pub(crate) use rest::{Login, Rest, RestSettings, RestTls};
pub(crate) use settings::{HealthSettings, NodeRole, NodeSettings};
pub(crate) use source::{Observe, Provider, Source, SourceSettings, Sources};
pub(crate) use url::RestUrl;
pub(crate) use view::{Member, View};
pub(crate) use views::{NoView, ViewSeen, ViewSettings};
pub(crate) use witness::Sight;

pub use provider::{
    ObservingProvider, SightedLeader, Sighting, TopologyEvent, TopologyNodeInfo, TopologyProvider,
};
