//! Facts survive, and unknown ones are skipped.

use trace::{Fact, Writer};

use crate::samples::{fact, facts, read};

#[test]
fn every_fact_survives() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for known in facts() {
        writer.push(&fact(&known)).unwrap();
    }
    let (events, _) = read(&writer.finish().unwrap());
    let texts = events.iter().map(|event| event.text.as_deref().unwrap());
    let read: Vec<_> = texts.map(|text| Fact::parse(text).unwrap()).collect();
    assert_eq!(read, facts());
}

#[test]
fn facts_of_later_versions_are_skipped() {
    assert_eq!(Fact::parse(r#"{"fact":"weather","sun":true}"#), None);
    assert_eq!(
        Fact::parse(r#"{"fact":"fork","child":3,"twin":4}"#),
        Some(Fact::Fork { child: 3 })
    );
    assert_eq!(Fact::parse("{"), None);
}
