//! How large the elements of arrays are: copies to and from them may count elements.

use agent_common::{Api, Effect};
use rustc_hash::FxHashMap;
use trace::Event;

/// Most arrays that are kept.
const MAX_KEPT: usize = 1 << 16;

/// Bytes of an element, by process and array.
#[derive(Debug, Default)]
pub(super) struct Arrays(FxHashMap<(u32, u64), u64>);

impl Arrays {
    /// Takes note of arrays that come and go; fills in the bytes of a copy that counts elements.
    pub(super) fn call(&mut self, api: &Api, event: &mut Event) {
        if api.effect == Effect::ArrayAlloc {
            if let (Some(array), Some(bytes), Some(elements)) =
                (event.handle, event.size, event.count)
                && let Some(element) = bytes.cast_unsigned().checked_div(elements)
                && self.0.len() < MAX_KEPT
            {
                self.0.insert((event.pid, array), element);
            }
        } else if api.effect == Effect::ArrayFree {
            if let Some(array) = event.handle {
                self.0.remove(&(event.pid, array));
            }
        } else if api.effect == Effect::Copy
            && event.size.is_none()
            && let Some(elements) = event.count
        {
            let mut arrays = [event.handle, event.related].into_iter().flatten();
            let element = arrays.find_map(|array| self.0.get(&(event.pid, array)));
            event.size = element
                .and_then(|bytes| elements.checked_mul(*bytes))
                .map(u64::cast_signed);
        }
    }

    /// The process has ended.
    pub(super) fn forget(&mut self, pid: u32) {
        self.0.retain(|(owner, _), _| *owner != pid);
    }
}
