//! Unloadings that found the ring full: nothing else tells that handles may be used again.

use std::sync::Arc;

use agent_common::{Api, ApiId, Effect};

use crate::programs::State;

/// How many there were.
#[derive(Debug)]
pub(super) struct LostUnloadings {
    state: Arc<State>,
    apis: Vec<ApiId>,
    lost: u64,
}

impl LostUnloadings {
    pub(super) fn new(state: Arc<State>) -> Self {
        let concerns = |api: &Api| {
            is_unloading(api.effect)
                // Without it, it is not known which library a module is of.
                || api.name == "cuLibraryGetModule"
        };
        let apis = ApiId::all().filter(|id| id.api().is_some_and(concerns));
        Self {
            state,
            apis: apis.collect(),
            lost: 0,
        }
    }

    /// Whether there are more than when this was asked before.
    pub(super) fn are_more(&mut self) -> bool {
        let lost = self.apis.iter().map(|id| {
            let counters = self.state.counters(id.0).unwrap_or_default();
            counters.lost_ring + counters.lost_pairing
        });
        let lost = lost.sum();
        let are_more = lost > self.lost;
        self.lost = lost;
        are_more
    }
}

/// Whether device code may be gone after a call of this effect.
pub(super) const fn is_unloading(effect: Effect) -> bool {
    matches!(
        effect,
        Effect::ModuleUnload
            | Effect::ContextDestroy
            | Effect::ContextReset
            | Effect::ContextRelease
    )
}
