//! Kubernetes' own types, which pass over what they do not know.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The object; panics where a field of it is not in the type.
pub(crate) fn strictly<T: DeserializeOwned>(object: &Value) -> T {
    let mut unknown = Vec::new();
    let parsed = serde_ignored::deserialize(object, |path| unknown.push(path.to_string()));
    assert!(
        unknown.is_empty(),
        "no such fields: {unknown:?} in {object}"
    );
    parsed.unwrap_or_else(|error| panic!("{error} in {object}"))
}
