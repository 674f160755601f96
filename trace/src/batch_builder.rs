//! The first half of writing: events in, batches out.

use agent_common::{ApiId, Family, Layer};
use arrow_array::RecordBatch;

use crate::columns::{BLOCK, Column, Names, Optional, ROWS, Required, Text};
use crate::schema::{for_each_column, schema};
use crate::{Event, EventBatch, Kind};

/// Longest text that a row holds, bytes. A longer one is left out: its row has none.
pub const TEXT_CAPACITY: usize = 1 << 20;

/// A batch is full when its texts have this many bytes in all.
const TEXT_PER_BATCH: usize = 4 << 20;

/// Some thousand rows, ready to be written.
#[derive(Clone, Debug)]
pub struct Batch(pub(crate) RecordBatch);

impl Batch {
    /// How many rows it has; never 0.
    pub fn rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The same rows, as a reader has them.
    pub fn events(&self) -> EventBatch {
        EventBatch::read(&self.0).expect("the columns are those of the schema")
    }
}

/// What became of an event.
#[derive(Debug)]
pub struct Pushed {
    /// Its position in the recording.
    pub seq: u64,
    /// The batch that it completed.
    pub full: Option<Batch>,
}

/// Numbers events and gathers them into batches.
#[derive(Debug)]
pub struct BatchBuilder {
    /// The last events, fewer than a block: each column takes a whole block at a time, which
    /// is several times faster than row by row.
    block: Vec<Event>,
    columns: Columns,
    rows: usize,
    text_bytes: usize,
    next_seq: u64,
}

impl BatchBuilder {
    /// For a new recording.
    #[expect(
        clippy::new_without_default,
        reason = "a recording begins; that is no default"
    )]
    pub fn new() -> Self {
        Self::starting_at(0)
    }

    /// For a recording that goes on: its first row gets this `seq`.
    pub fn starting_at(next_seq: u64) -> Self {
        Self {
            block: Vec::with_capacity(BLOCK),
            columns: Columns::new(),
            rows: 0,
            text_bytes: 0,
            next_seq,
        }
    }

    /// Appends an event, numbering it: what it has in `seq` is ignored. A text longer than
    /// [`TEXT_CAPACITY`] is left out.
    pub fn push(&mut self, event: &Event) -> Pushed {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.text_bytes += event.text.as_ref().map_or(0, String::len);
        self.block.push(Event {
            seq,
            ..event.clone()
        });
        if self.block.len() == BLOCK {
            self.append_block();
        }
        let is_full = self.rows == ROWS || self.text_bytes >= TEXT_PER_BATCH;
        Pushed {
            seq,
            full: if is_full { self.flush() } else { None },
        }
    }

    /// The events since the last batch, full or not; `None` where there are none.
    pub fn flush(&mut self) -> Option<Batch> {
        if !self.block.is_empty() {
            self.append_block();
        }
        self.text_bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        (rows > 0).then(|| Batch(self.columns.take()))
    }

    /// How many events have been pushed and are in no batch yet.
    pub fn pending(&self) -> usize {
        self.rows + self.block.len()
    }

    fn append_block(&mut self) {
        self.columns.extend(&self.block);
        self.rows += self.block.len();
        self.block.clear();
    }
}

macro_rules! columns {
    ($($name:ident: $type:ty, $unit:literal, $doc:literal;)*) => {
        #[derive(Debug)]
        struct Columns {
            $($name: $type,)*
        }

        impl Columns {
            fn new() -> Self {
                Self { $($name: Column::new(),)* }
            }

            fn take(&mut self) -> RecordBatch {
                RecordBatch::try_new(schema(), vec![$(self.$name.take()),*])
                    .expect("the columns are those of the schema, of equal length")
            }
        }
    };
}

for_each_column!(columns);

impl Columns {
    fn extend(&mut self, events: &[Event]) {
        // Exhaustive: a new column needs its line here.
        let Self {
            seq,
            ts,
            duration,
            pid,
            tid,
            kind,
            api,
            layer,
            family,
            parent,
            result,
            device,
            source_device,
            location,
            location_id,
            address,
            source,
            size,
            offset,
            count,
            copy_kind,
            stream,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            shared_memory,
            handle,
            related,
            option,
            kernel,
            caller,
            stack,
            allocated,
            reserved,
            device_free,
            device_total,
            flags,
            text,
        } = self;
        seq.extend(events.iter().map(|event| event.seq));
        ts.extend(events.iter().map(|event| event.timestamp));
        duration.extend(events.iter().map(|event| event.duration));
        pid.extend(events.iter().map(|event| event.pid));
        tid.extend(events.iter().map(|event| event.tid));
        kind.extend(events.iter().map(|event| Some(event.kind)));
        // An id outside the probe table has no name, and so no place in the table.
        let functions = || {
            events
                .iter()
                .map(|event| event.api.and_then(|id| Some((id, id.api()?))))
        };
        api.extend(functions().map(|function| function.map(|(id, _)| id)));
        layer.extend(functions().map(|function| function.map(|(_, api)| api.layer)));
        family.extend(functions().map(|function| function.map(|(_, api)| api.family)));
        parent.extend(
            events
                .iter()
                .map(|event| event.parent.filter(|id| id.api().is_some())),
        );
        result.extend(events.iter().map(|event| event.result));
        device.extend(events.iter().map(|event| event.device));
        source_device.extend(events.iter().map(|event| event.source_device));
        location.extend(events.iter().map(|event| event.location));
        location_id.extend(events.iter().map(|event| event.location_id));
        address.extend(events.iter().map(|event| event.address));
        source.extend(events.iter().map(|event| event.source));
        size.extend(events.iter().map(|event| event.size));
        offset.extend(events.iter().map(|event| event.offset));
        count.extend(events.iter().map(|event| event.count));
        copy_kind.extend(events.iter().map(|event| event.copy_kind));
        stream.extend(events.iter().map(|event| event.stream));
        grid_x.extend(
            events
                .iter()
                .map(|event| event.dimensions.map(|launch| launch.grid[0])),
        );
        grid_y.extend(
            events
                .iter()
                .map(|event| event.dimensions.map(|launch| launch.grid[1])),
        );
        grid_z.extend(
            events
                .iter()
                .map(|event| event.dimensions.map(|launch| launch.grid[2])),
        );
        block_x.extend(
            events
                .iter()
                .map(|event| event.dimensions.map(|launch| launch.block[0])),
        );
        block_y.extend(
            events
                .iter()
                .map(|event| event.dimensions.map(|launch| launch.block[1])),
        );
        block_z.extend(
            events
                .iter()
                .map(|event| event.dimensions.map(|launch| launch.block[2])),
        );
        shared_memory.extend(events.iter().map(|event| event.shared_memory));
        handle.extend(events.iter().map(|event| event.handle));
        related.extend(events.iter().map(|event| event.related));
        option.extend(events.iter().map(|event| event.option));
        kernel.extend(events.iter().map(|event| event.kernel));
        caller.extend(events.iter().map(|event| event.caller));
        stack.extend(events.iter().map(|event| event.stack));
        allocated.extend(events.iter().map(|event| event.allocated));
        reserved.extend(events.iter().map(|event| event.reserved));
        device_free.extend(events.iter().map(|event| event.device_free));
        device_total.extend(events.iter().map(|event| event.device_total));
        flags.extend(events.iter().map(|event| event.flags));
        text.extend(events.iter().map(text_that_fits));
    }
}

fn text_that_fits(event: &Event) -> Option<&str> {
    event
        .text
        .as_deref()
        .filter(|text| text.len() <= TEXT_CAPACITY)
}
