//! Several sinks side by side.

use trace::Event;

use super::{Ids, Sink, SinkError, Summary};

/// Gives each event to one sink that must work, and to others that may fail without it.
#[derive(Debug)]
pub struct Fan {
    first: Box<dyn Sink>,
    /// With what each is for.
    others: Vec<(&'static str, Box<dyn Sink>)>,
}

impl Fan {
    /// `others` are named by what they are for. One that fails is given up, with a warning.
    pub fn new(first: Box<dyn Sink>, others: Vec<(&'static str, Box<dyn Sink>)>) -> Self {
        Self { first, others }
    }

    fn others(&mut self, mut act: impl FnMut(&mut dyn Sink) -> Result<(), SinkError>) {
        self.others.retain_mut(|(name, sink)| {
            act(sink.as_mut())
                .inspect_err(|error| tracing::warn!("{name} ends, all else goes on: {error}"))
                .is_ok()
        });
    }
}

impl Sink for Fan {
    fn first_ids(&self) -> Ids {
        let others = self.others.iter().map(|(_, sink)| sink.first_ids());
        others.fold(self.first.first_ids(), Ids::after_both)
    }

    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        if !self.others.is_empty() {
            self.others(|sink| sink.event(event));
        }
        self.first.event(event)
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        self.others(|sink| sink.tick());
        self.first.tick()
    }

    fn finish(self: Box<Self>) -> Result<Summary, SinkError> {
        for (name, sink) in self.others {
            if let Err(error) = sink.finish() {
                tracing::warn!("{name}: {error}");
            }
        }
        self.first.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
    };

    use super::*;

    /// Counts, and fails from the event with this number on.
    #[derive(Debug)]
    struct Counting(Arc<AtomicU64>, u64);

    impl Sink for Counting {
        fn event(&mut self, _: &Event) -> Result<(), SinkError> {
            if self.0.fetch_add(1, Ordering::Relaxed) + 1 >= self.1 {
                return Err(SinkError::Stdout(io::Error::other("full")));
            }
            Ok(())
        }

        fn tick(&mut self) -> Result<(), SinkError> {
            Ok(())
        }

        fn finish(self: Box<Self>) -> Result<Summary, SinkError> {
            Ok(Summary::default())
        }
    }

    #[test]
    fn one_that_fails_leaves_the_others_alone() {
        let [first, failing, other] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let sink = |count: &Arc<AtomicU64>, limit| Box::new(Counting(Arc::clone(count), limit));
        let mut fan = Fan::new(
            sink(&first, u64::MAX),
            vec![
                ("failing", sink(&failing, 2) as Box<dyn Sink>),
                ("other", sink(&other, u64::MAX)),
            ],
        );
        for _ in 0..5 {
            fan.event(&Event::default()).expect("the first works");
        }
        let counts = [first, failing, other].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [5, 2, 5]);
    }
}
