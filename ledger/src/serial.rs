//! How addresses, handles and functions are written in checkpoints: addresses as hexadecimal
//! strings, since many readers of JSON round numbers beyond 53 bits.

use serde::{Deserializer, Serializer, de::Error as _};

fn parse(text: &str) -> Result<u64, std::num::ParseIntError> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16)
}

/// An address.
pub(crate) mod hex {
    use super::{Deserializer, Serializer, parse};
    use serde::{Deserialize as _, de::Error as _};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(crate) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:#x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
        parse(&String::deserialize(source)?).map_err(D::Error::custom)
    }
}

/// A handle, or none.
pub(crate) mod handle {
    use super::{Deserializer, Serializer, parse};
    use serde::{Deserialize as _, de::Error as _};

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(&format_args!("{value:#x}")),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        source: D,
    ) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(source)?;
        text.map(|text| parse(&text).map_err(D::Error::custom))
            .transpose()
    }
}

/// A map with handles for keys, as pairs.
pub(crate) mod pairs {
    use super::parse;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        map: &BTreeMap<u64, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map.iter().map(|(key, value)| (format!("{key:#x}"), value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        source: D,
    ) -> Result<BTreeMap<u64, T>, D::Error> {
        let pairs = Vec::<(String, T)>::deserialize(source)?;
        let parsed = pairs
            .into_iter()
            .map(|(key, value)| Ok((parse(&key)?, value)));
        parsed
            .collect::<Result<_, std::num::ParseIntError>>()
            .map_err(serde::de::Error::custom)
    }
}

/// A map with numbers for keys, as pairs: the keys of a JSON object are strings, which are not read
/// back as numbers inside an enum with a tag.
pub(crate) mod entries {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(crate) fn serialize<S: Serializer, K: Serialize, V: Serialize>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, D, K, V>(source: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        D: Deserializer<'de>,
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(source)?.into_iter().collect())
    }
}

/// A function, by name.
pub(crate) mod api {
    use agent_common::ApiId;

    use super::{Deserializer, Serializer};
    use serde::{Deserialize as _, de::Error as _};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(crate) fn serialize<S: Serializer>(id: &ApiId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(id.api().map_or("", |api| api.name))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<ApiId, D::Error> {
        let name = String::deserialize(source)?;
        ApiId::by_name(&name).ok_or_else(|| D::Error::custom(format!("no function {name:?}")))
    }
}

impl serde::Serialize for crate::AddressRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (format!("{:#x}", self.start()), self.size()).serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for crate::AddressRange {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let (start, size) = <(String, u64)>::deserialize(source)?;
        let start = parse(&start).map_err(D::Error::custom)?;
        Self::new(start, size).ok_or_else(|| D::Error::custom("no range of addresses"))
    }
}
