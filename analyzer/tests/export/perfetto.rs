//! Perfetto's trace format.

use crate::{directory, everything, exported, python, recordings, script, write};

#[test]
fn every_row_is_one_event_of_the_format() {
    let directory = directory();
    let mut all = recordings();
    all.push(everything(&directory));
    all.push(write(
        &directory,
        "awkward.arrows",
        &crate::chrome::awkward(),
    ));
    for recording in all {
        let trace = exported(&directory, "perfetto", &recording, &[]);
        script(&python(), "pftrace.py", &[&recording, &trace]);
    }
}
