//! What is known live: the sink that the drain feeds, and what is read from it meanwhile.
//!
//! One lock guards all of it. The drain takes it for each event, which costs some nanoseconds where
//! nobody else wants it; a reader takes it once, copies what it needs, and works on the copy.

mod books;
mod calls;
mod copies;
mod devices;
mod histogram;
mod kernel_side;
mod kernels;
mod lanes;
mod limits;
mod memory;
mod probes;
mod sampled;
mod streams;
#[cfg(test)]
pub(super) mod tests;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use analyzer::memory::{Collector, Report};
use trace::Event;

#[cfg(feature = "otlp")]
use super::otlp::Pushes;
use super::{
    metrics::{self, Metric, Samples},
    status::Status,
};
use crate::{
    discover::Process,
    session::{ProbeStatus, Vitals},
    sink::{Monitor, Sink, SinkError, Summary},
};
use books::Books;
use kernel_side::KernelSide;
pub(super) use streams::{Message, Opened};

/// What is known, shared between the drain and its readers.
#[derive(Debug)]
pub(super) struct Live {
    books: Mutex<Books>,
    /// Apart, for it is not the drain that brings it.
    kernel_side: Mutex<KernelSide>,
    status: Arc<Status>,
    probes: Arc<ProbeStatus>,
    /// Of the recordings beside the metrics, one for each session.
    recordings: Mutex<Vec<Arc<Monitor>>>,
    /// How pushes to a collector go.
    #[cfg(feature = "otlp")]
    pub(super) pushes: Pushes,
    started: SystemTime,
}

impl Live {
    /// `samples`: there is an overhead budget.
    pub(super) fn new(status: Arc<Status>, probes: Arc<ProbeStatus>, samples: bool) -> Self {
        Self {
            books: Mutex::new(Books::new(samples)),
            kernel_side: Mutex::default(),
            status,
            probes,
            recordings: Mutex::default(),
            #[cfg(feature = "otlp")]
            pushes: Pushes::default(),
            started: SystemTime::now(),
        }
    }

    /// The sink to be fed in the next session.
    pub(super) fn sink(self: &Arc<Self>) -> LiveSink {
        self.books().begin();
        self.kernel_side().begin();
        LiveSink {
            live: Arc::clone(self),
            events: 0,
            is_on: false,
        }
    }

    /// A recording is made beside the metrics.
    pub(super) fn rolls(&self, monitor: Arc<Monitor>) {
        self.recordings().push(monitor);
    }

    fn recordings(&self) -> MutexGuard<'_, Vec<Arc<Monitor>>> {
        self.recordings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How the kernel's side does now.
    pub(super) fn observe(&self, vitals: &Vitals) {
        self.kernel_side().observe(vitals);
    }

    /// When counting began.
    #[cfg(feature = "otlp")]
    pub(super) const fn started(&self) -> SystemTime {
        self.started
    }

    /// The values of all metrics.
    pub(super) fn samples(&self) -> Samples {
        self.refresh_titles();
        let mut samples = Samples::default();
        self.books().collect(&mut samples);
        self.kernel_side().collect(&mut samples);
        probes::collect(&self.probes, &mut samples);
        let (is_on, reason) = self.status.metric();
        samples.count(Metric::Tracing, vec![reason.into()], u64::from(is_on));
        metrics::collect_recording(&self.recordings(), &mut samples);
        #[cfg(feature = "otlp")]
        self.pushes.collect(&mut samples);
        metrics::collect_own(self.started, &mut samples);
        samples
    }

    /// Who holds which memory now.
    pub(super) fn memory(&self) -> Report {
        let mut report = self.collector().finish();
        let losses = self.kernel_side().losses();
        report.recording.lost_memory_records = Some(losses.memory);
        report.recording.lost_torch_reports = Some(losses.torch);
        report.recording.recursion_misses = Some(losses.recursion);
        report
    }

    /// A copy of what is known of memory now.
    pub(super) fn collector(&self) -> Collector {
        self.books().memory.collector.clone()
    }

    /// A recording of what comes from now on.
    pub(super) fn record(&self) -> Opened {
        self.books().record()
    }

    /// Ends the recording with this number.
    pub(super) fn end_recording(&self, number: u64) {
        self.books().streams.end(number);
    }

    /// Records that were lost until now, for any reason.
    pub(super) fn lost(&self) -> u64 {
        self.kernel_side().losses().all()
    }

    /// Processes rename themselves after they have started: `VLLM::Worker_TP0` was `python3`.
    fn refresh_titles(&self) {
        let titled = self.books().lanes.titled();
        let renamed: Vec<_> = titled
            .into_iter()
            .filter_map(|known| {
                let facts = Process::open(known.pid).ok()?.facts(false).ok()?;
                let is_same = known.start_time == 0 || known.start_time == facts.start_time;
                (is_same && *known.title != *facts.title).then_some(facts)
            })
            .collect();
        if !renamed.is_empty() {
            let mut books = self.books();
            for facts in &renamed {
                books.lanes.introduce(facts);
            }
        }
    }

    /// Should a thread have panicked over them, they are still the best that there is.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kernel_side(&self) -> MutexGuard<'_, KernelSide> {
        self.kernel_side
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Feeds [`Live`].
#[derive(Debug)]
pub(super) struct LiveSink {
    live: Arc<Live>,
    events: u64,
    is_on: bool,
}

impl Sink for LiveSink {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        // The first event comes when the programs have been loaded.
        if !self.is_on {
            self.is_on = true;
            self.live.status.turn_on();
        }
        self.events += 1;
        self.live.books().event(event);
        Ok(())
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        self.live.books().tick();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Summary, SinkError> {
        self.live.books().streams.end_all();
        Ok(Summary {
            events: self.events,
            bytes: 0,
        })
    }
}
