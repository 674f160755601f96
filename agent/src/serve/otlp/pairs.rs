//! `key=value,key=value`: how OpenTelemetry's variables list things.

use percent_encoding::percent_decode_str;

/// The pairs; the first piece that is none.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    text.split(',')
        .filter(|piece| !piece.trim().is_empty())
        .map(|piece| {
            let bad = || format!("`{}` is no key=value", piece.trim());
            let (key, value) = piece.split_once('=').ok_or_else(bad)?;
            let key = decoded(key).filter(|key| !key.is_empty());
            Ok((key.ok_or_else(bad)?, decoded(value).ok_or_else(bad)?))
        })
        .collect()
}

/// `%20` is a space; `None` for what is no text then.
fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text.trim()).decode_utf8().ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_told_apart_and_decoded() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            parse("authorization=Bearer%20a%3Db, x = 1 ,,empty="),
            Ok(vec![
                pair("authorization", "Bearer a=b"),
                pair("x", "1"),
                pair("empty", "")
            ])
        );
        assert_eq!(parse(""), Ok(vec![]));
        for bad in ["key", "=value", "key=%ff"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
