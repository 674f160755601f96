//! The table that the formats without a timeline have: the columns of a recording, and what is
//! known beyond them.

use super::Row;

/// What a field of the table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number of at most 32 bits.
    Small(u32),
    /// A result or an ordinal.
    Signed(i32),
    /// A number, mostly of bytes or ns.
    Number(u64),
    /// Bytes that may be less than none.
    Size(i64),
    /// An address, a handle or flags of 64 bits: in text, hexadecimal.
    Address(u64),
    /// A name or a fact.
    Text(&'a str),
    /// A time of day, ns since 1970.
    Time(u64),
}

/// The type of a column's values, for a format that has types.
#[cfg(feature = "parquet")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Small,
    Signed,
    Number,
    Size,
    Address,
    Text,
    Time,
}

/// One column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    #[cfg(feature = "parquet")]
    pub(super) form: Form,
    /// Its value in a row; `None` where it does not apply or is not known.
    pub(super) of: for<'a> fn(&Row<'a>) -> Option<Value<'a>>,
}

/// Columns that every call on a track shows by its place, length, colour or name.
pub(super) const SHOWN_OTHERWISE: &[&str] = &["ts", "duration", "pid", "tid", "family"];

macro_rules! columns {
    ($($name:ident: $form:ident = |$row:ident| $value:expr;)*) => {
        &[$(Column {
            name: stringify!($name),
            #[cfg(feature = "parquet")]
            form: Form::$form,
            of: |$row| $value.map(Value::$form),
        }),*]
    };
}
#[cfg(feature = "parquet")]
pub(super) use columns;

/// The columns of a recording, in its order; then those that are derived.
pub(super) const COLUMNS: &[Column] = columns! {
    seq: Number = |row| Some(row.batch.seq()[row.index]);
    ts: Number = |row| Some(row.batch.ts()[row.index]);
    duration: Number = |row| row.batch.duration().get(row.index);
    pid: Small = |row| Some(row.batch.pid()[row.index]);
    tid: Small = |row| Some(row.batch.tid()[row.index]);
    kind: Text = |row| row.batch.kind().name(row.index);
    api: Text = |row| row.batch.api().name(row.index);
    layer: Text = |row| row.batch.layer().name(row.index);
    family: Text = |row| row.batch.family().name(row.index);
    parent: Text = |row| row.batch.parent().name(row.index);
    result: Signed = |row| row.batch.result().get(row.index);
    device: Signed = |row| row.batch.device().get(row.index);
    source_device: Signed = |row| row.batch.source_device().get(row.index);
    location: Small = |row| row.batch.location().get(row.index).map(u32::from);
    location_id: Signed = |row| row.batch.location_id().get(row.index);
    address: Address = |row| row.batch.address().get(row.index);
    source: Address = |row| row.batch.source().get(row.index);
    size: Size = |row| row.batch.size().get(row.index);
    offset: Number = |row| row.batch.offset().get(row.index);
    count: Number = |row| row.batch.count().get(row.index);
    copy_kind: Small = |row| row.batch.copy_kind().get(row.index).map(u32::from);
    stream: Address = |row| row.batch.stream().get(row.index);
    grid_x: Small = |row| row.batch.grid_x().get(row.index);
    grid_y: Small = |row| row.batch.grid_y().get(row.index);
    grid_z: Small = |row| row.batch.grid_z().get(row.index);
    block_x: Small = |row| row.batch.block_x().get(row.index);
    block_y: Small = |row| row.batch.block_y().get(row.index);
    block_z: Small = |row| row.batch.block_z().get(row.index);
    shared_memory: Number = |row| row.batch.shared_memory().get(row.index);
    handle: Address = |row| row.batch.handle().get(row.index);
    related: Address = |row| row.batch.related().get(row.index);
    option: Address = |row| row.batch.option().get(row.index);
    kernel: Small = |row| row.batch.kernel().get(row.index);
    caller: Small = |row| row.batch.caller().get(row.index);
    stack: Small = |row| row.batch.stack().get(row.index);
    allocated: Number = |row| row.batch.allocated().get(row.index);
    reserved: Number = |row| row.batch.reserved().get(row.index);
    device_free: Number = |row| row.batch.device_free().get(row.index);
    device_total: Number = |row| row.batch.device_total().get(row.index);
    flags: Small = |row| Some(row.batch.flags()[row.index]);
    text: Text = |row| row.text();
    time: Time = |row| row.names.clocks().realtime(row.moment());
    kernel_name: Text = |row| row.kernel().map(|kernel| kernel.name.as_str());
    kernel_short: Text = |row| row.kernel().map(|kernel| kernel.short.as_str());
    caller_module: Text = |row| row.caller();
    process_title: Text = |row| row.process().map(|process| process.title.as_str());
    live_bytes: Number = |row| row.live;
};
