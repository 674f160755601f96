//! Every function that cudasnoop traces, called with arguments that can be told apart, and what
//! a recording must show of each call.
//!
//! Arguments are written down as the words that the ABI passes, from the CUDA headers; unused
//! registers and the unused halves of 32-bit arguments hold rubbish, so that a value read from a
//! wrong place shows. What a call is expected to record follows from those words and from what
//! CUDA's documentation says that the call does.

pub mod arguments;
mod arrays;
mod batches;
mod contexts;
mod copies;
mod expected;
mod graphs;
mod host;
mod ipc;
mod launches;
mod layers;
mod memory;
mod modules;
mod pools;
mod session;
mod sets;
mod shaped_copies;
mod symbols;
mod vmm;
mod waits;

pub use session::{Row, Session};

use layers::Layer;

/// Calls every function of the driver, then every one of the runtime.
///
/// # Panics
/// When a call does not return what it must.
pub fn call_everything(session: &mut Session) {
    let contexts = contexts::driver(session);
    section(session, Layer::Driver);
    copies::between_contexts(session, contexts);
    waits::context(session, contexts[0]);
    vmm::call(session);
    modules::driver(session);
    contexts::end_driver(session);

    contexts::runtime(session);
    section(session, Layer::Runtime);
    symbols::call(session);
    modules::runtime(session);
    contexts::end_runtime(session);
}

/// What both layers have.
fn section(session: &mut Session, layer: Layer) {
    memory::call(session, layer);
    host::call(session, layer);
    pools::call(session, layer);
    arrays::call(session, layer);
    ipc::call(session, layer);
    sets::call(session, layer);
    copies::call(session, layer);
    shaped_copies::call(session, layer);
    batches::call(session, layer);
    launches::call(session, layer);
    waits::call(session, layer);
    graphs::call(session, layer);
}
