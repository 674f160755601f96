//! What the names of functions tell.

use agent_common::ApiId;

/// What a function's name tells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Function {
    /// It returns before its work is done.
    pub(super) is_async: bool,
    /// It waits for an event.
    pub(super) waits_for_event: bool,
    /// It waits for a stream.
    pub(super) waits_for_stream: bool,
}

/// All functions, by [`ApiId`]: names are looked at once, not with each call.
#[derive(Debug)]
pub(super) struct Functions(Vec<Function>);

impl Functions {
    pub(super) fn new() -> Self {
        let functions = ApiId::all().map(|id| {
            let name = id.api().map_or("", |api| api.name);
            Function {
                is_async: name.contains("Async"),
                waits_for_event: name.contains("EventSynchronize"),
                waits_for_stream: name.contains("StreamSynchronize"),
            }
        });
        Self(functions.collect())
    }

    #[inline]
    pub(super) fn get(&self, id: ApiId) -> Function {
        let function = self.0.get(usize::from(id.0));
        function.copied().unwrap_or_default()
    }
}
