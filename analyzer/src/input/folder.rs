//! From paths to recordings: which files are segments of one.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use trace::{Fact, Reader, SegmentName};

use super::{Chain, Input};
use crate::Error;

/// Segments of a rolling recording by number, each with its file.
type Segments = BTreeMap<u64, PathBuf>;

/// The recordings that `paths` name, in that order. Segments of one folder are one recording,
/// whether the folder is named or they are.
pub(super) fn chains(
    paths: &[PathBuf],
    columns: &'static [&'static str],
) -> Result<Vec<Chain>, Error> {
    let mut chains = Vec::new();
    let mut by_folder: BTreeMap<PathBuf, Segments> = BTreeMap::new();
    for path in paths {
        if let Some((folder, number)) = segment(path) {
            by_folder
                .entry(folder)
                .or_default()
                .insert(number, path.clone());
        }
    }
    for path in paths {
        if let Input::File(_) = Input::from(path.as_path())
            && path.is_dir()
        {
            let segments = list(path)?;
            rolling(path, &segments, is_locked(path), columns, &mut chains);
        } else if let Some((folder, _)) = segment(path) {
            // All of the folder with the first of them.
            if let Some(segments) = by_folder.remove(&folder) {
                let is_live = has_open(&segments) && is_locked(&folder);
                rolling(&folder, &segments, is_live, columns, &mut chains);
            }
        } else {
            chains.push(Chain::file(Input::from(path.as_path()), columns));
        }
    }
    Ok(chains)
}

/// Where a file that is named like a segment lies, and its number.
fn segment(path: &Path) -> Option<(PathBuf, u64)> {
    let name = SegmentName::parse(path.file_name()?.to_str()?)?;
    Some((path.parent()?.to_owned(), name.number))
}

/// The segments in a folder.
fn list(folder: &Path) -> Result<Segments, Error> {
    let failed = |source| Error::Folder {
        path: folder.to_owned(),
        source,
    };
    let mut segments = Segments::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(found) = name.to_str().and_then(SegmentName::parse) else {
            continue;
        };
        // One that was closed just now may be listed by both of its names.
        if !found.is_open || !segments.contains_key(&found.number) {
            segments.insert(found.number, folder.join(name));
        }
    }
    if segments.is_empty() {
        let path = folder.to_owned();
        return Err(Error::NoSegments { path });
    }
    Ok(segments)
}

/// The recordings in a folder's segments: one for each boot, whose clocks and process ids are
/// not those of another.
fn rolling(
    folder: &Path,
    segments: &Segments,
    is_live: bool,
    columns: &'static [&'static str],
    chains: &mut Vec<Chain>,
) {
    let mut notes = Vec::new();
    if is_live {
        notes.push(format!(
            "{} is being written: what it has up to now is read",
            folder.display()
        ));
    }
    let numbers: Vec<u64> = segments.keys().copied().collect();
    for pair in numbers.windows(2) {
        let (last, next) = (pair[0], pair[1]);
        if next > last + 1 {
            let shown = folder.display();
            notes.push(format!(
                "{shown}: segments {} to {} are missing",
                last + 1,
                next - 1
            ));
        }
    }
    let mut parts: Vec<(Option<String>, Vec<Input>)> = Vec::new();
    for path in segments.values() {
        let boot = if segments.len() > 1 {
            boot_of(path)
        } else {
            None
        };
        let input = Input::File(path.clone());
        match parts.last_mut() {
            Some((known, inputs)) if boot.is_none() || known.is_none() || *known == boot => {
                *known = known.take().or(boot);
                inputs.push(input);
            }
            Some(_) | None => parts.push((boot, vec![input])),
        }
    }
    let count = parts.len();
    for (place, (_, inputs)) in (1..).zip(parts) {
        let name = folder.display().to_string();
        let notes = std::mem::take(&mut notes);
        let is_live = is_live && place == count;
        chains.push(Chain::segments(
            name,
            inputs.into_iter(),
            notes,
            is_live,
            columns,
        ));
    }
}

/// Whether the last of these is named like one that is being written.
fn has_open(segments: &Segments) -> bool {
    let last = segments.values().next_back();
    let name = last.and_then(|path| SegmentName::parse(path.file_name()?.to_str()?));
    name.is_some_and(|name| name.is_open)
}

/// Whether a recorder writes to a folder: it holds a lock on it for as long as it lives.
fn is_locked(folder: &Path) -> bool {
    // One that cannot be opened or locked: nobody knows.
    let tried = File::open(folder).map(|folder| folder.try_lock_shared());
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

/// The boot that a segment is of; `None` where it does not say.
fn boot_of(path: &Path) -> Option<String> {
    let reader = Reader::new(super::open(path).ok()?).ok()?;
    let batch = reader.select(&["text"]).next()?.ok()?;
    let (_, text) = batch.text().iter().next()?;
    if let Fact::Segment(segment) = Fact::parse(text)? {
        Some(segment.boot_id).filter(|id| !id.is_empty())
    } else {
        None
    }
}
