//! The account: what the kernel counted, and what is still inside a call.

use std::collections::HashMap;

use agent_common::{
    ApiId, CallRecord, Counters, Header, LongCallRecord, MAX_DEPTH, MAX_VALUES, RecordKind,
    SHORT_VALUES, ThreadState,
};
use aya::maps::MapError;
use trace::{Event, Fact, Kind, fact};

use super::{Vitals, clock, control::Cut, enrich::fact_event};
use crate::{programs::State, sink::Counts};

/// One function's counters.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    /// The function.
    pub api: ApiId,
    /// What the kernel counted.
    pub counters: Counters,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// The function.
    pub api: ApiId,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// How long ago it was entered, ns.
    pub age: u64,
}

/// The counters of all functions that were called.
pub(super) fn totals(state: &State) -> Result<Vec<Totals>, MapError> {
    let mut totals = Vec::new();
    for api in ApiId::all() {
        let counters = state.counters(api.0)?;
        if counters != Counters::default() {
            totals.push(Totals { api, counters });
        }
    }
    Ok(totals)
}

/// Says what of the life of processes went unseen.
pub(super) fn warn_of_unseen_tasks(state: &State) -> Result<(), MapError> {
    let unseen = state.lost_task_records()?;
    if unseen > 0 {
        tracing::warn!("{unseen} forks, execs or exits found the ring buffer full and were missed");
    }
    Ok(())
}

/// How the kernel's side does now.
pub(super) fn vitals(state: &State) -> Result<Vitals, MapError> {
    Ok(Vitals {
        totals: totals(state)?,
        ring_fill: state.ring_fill(),
        unseen_tasks: state.lost_task_records()?,
        recursion_misses: state.recursion_misses(),
    })
}

/// What was counted until now, while calls go on. Rows that the drain has passed on are all in
/// it; and each loss in it is of a call that is in it as made.
pub(super) fn counts(state: &State) -> Option<Counts> {
    let mut functions = Vec::new();
    for api in ApiId::all() {
        let counters = state.counters(api.0).ok()?;
        if counters != Counters::default() {
            let Counters { made, folded, .. } = state.counters(api.0).ok()?;
            functions.push((
                api,
                Counters {
                    made,
                    folded,
                    ..counters
                },
            ));
        }
    }
    Some(Counts {
        functions,
        recursion_misses: state.recursion_misses(),
    })
}

/// The last rows of a recording: calls in flight, and each function's account. With the probes
/// off nothing changes any more, so they fit together. Sampled calls from before the `cut` are not in
/// flight, but lost from sight.
pub(super) fn rows(
    state: &State,
    totals: &[Totals],
    cut: Option<Cut>,
) -> (Vec<Event>, Vec<InFlight>) {
    let now = clock::monotonic();
    let mut rows = Vec::new();
    let mut in_flight = Vec::new();
    let mut by_api: HashMap<u16, u64> = HashMap::new();
    let mut out_of_sight: HashMap<u16, u64> = HashMap::new();
    for thread in state.threads() {
        for index in 0..thread.depth.min(MAX_DEPTH) {
            let Some((row, call)) = pending(&thread, index, now) else {
                continue;
            };
            let is_cut = cut.zip(call.api.api()).is_some_and(|(cut, api)| {
                row.timestamp < cut.at && cut.windows.is_sampled(api.class() as u8)
            });
            if is_cut {
                *out_of_sight.entry(call.api.0).or_default() += 1;
                rows.push(Event {
                    kind: Kind::Abandoned,
                    ..row
                });
                continue;
            }
            *by_api.entry(call.api.0).or_default() += 1;
            rows.push(row);
            in_flight.push(call);
        }
    }
    for Totals { api, counters } in totals {
        let Some(row) = api.api() else {
            continue;
        };
        // Exhaustive: a new cause of loss must appear in the account.
        let Counters {
            made,
            folded,
            reported,
            lost_ring,
            lost_pairing,
            abandoned,
            lost_extra,
            errors: _,
            bytes: _,
            duration: _,
        } = *counters;
        let account = fact::Account {
            api: row.name.to_owned(),
            made,
            folded,
            reported,
            lost_ring,
            lost_pairing,
            abandoned: abandoned + out_of_sight.get(&api.0).copied().unwrap_or(0),
            in_flight: by_api.get(&api.0).copied().unwrap_or(0),
            lost_extra,
            carried_in: 0,
            carried_out: 0,
        };
        rows.push(fact_event(0, 0, now, &Fact::Account(account)));
    }
    let recursion_misses = state.recursion_misses();
    if recursion_misses > 0 {
        let fact = Fact::RecursionMisses {
            count: recursion_misses,
        };
        rows.push(fact_event(0, 0, now, &fact));
    }
    (rows, in_flight)
}

/// The values as records have them: the first ones, and the rest.
fn short_and_more(
    values: [u64; MAX_VALUES],
) -> ([u64; SHORT_VALUES], [u64; MAX_VALUES - SHORT_VALUES]) {
    let mut args = [0; SHORT_VALUES];
    let mut more = [0; MAX_VALUES - SHORT_VALUES];
    args.copy_from_slice(&values[..SHORT_VALUES]);
    more.copy_from_slice(&values[SHORT_VALUES..]);
    (args, more)
}

/// The row of a pending call; `None` for one that is folded into another.
fn pending(thread: &ThreadState, index: u32, now: u64) -> Option<(Event, InFlight)> {
    let call = thread
        .calls
        .get(index as usize)
        .filter(|call| call.folded == 0)?;
    let age = now.saturating_sub(call.timestamp);
    let (args, more) = short_and_more(call.args);
    let record = CallRecord {
        header: Header {
            timestamp: call.timestamp,
            pid: thread.pid,
            tid: thread.tid,
            kind: RecordKind::Abandoned as u8,
            reserved: 0,
            api: call.api,
            flags: call.flags | thread.flags,
        },
        duration: age,
        caller: call.caller,
        result: 0,
        parent: call.parent,
        reserved: 0,
        args,
    };
    let event = Event {
        kind: Kind::InFlight,
        ..Event::from_record(&LongCallRecord { call: record, more })?
    };
    let call = InFlight {
        api: ApiId(call.api),
        pid: thread.pid,
        tid: thread.tid,
        age,
    };
    Some((event, call))
}
