//! Working ahead: a thread of its own runs an iterator while what it gave before is looked at.

use std::panic;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use crate::Error;

/// Most items that wait to be looked at: batches, each of some MB.
const AHEAD: usize = 4;

/// The items of an iterator, in its order. Where this is dropped before their end, the thread
/// ends when it has its next item.
#[derive(Debug)]
pub(crate) struct Ahead<I: Iterator> {
    items: Receiver<I::Item>,
    /// `None` once it has ended.
    thread: Option<JoinHandle<I>>,
    /// What it left.
    done: Option<I>,
}

impl<I> Ahead<I>
where
    I: Iterator<Item: Send> + Send + 'static,
{
    /// Starts a thread of this name.
    pub(crate) fn start(name: &str, iterator: I) -> Result<Self, Error> {
        let (sender, items) = sync_channel(AHEAD);
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn(move || run(iterator, &sender))
            .map_err(Error::Thread)?;
        Ok(Self {
            items,
            thread: Some(thread),
            done: None,
        })
    }

    /// The iterator, which has given no more than what was taken and some items that waited.
    /// Goes on with a panic of the thread.
    pub(crate) fn into_inner(self) -> I {
        let Self {
            items,
            thread,
            done,
        } = self;
        drop(items);
        thread
            .map(join)
            .or(done)
            .expect("the thread runs, or has ended")
    }
}

impl<I: Iterator> Iterator for Ahead<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let item = self.items.recv().ok();
        // Where the thread panicked, so does whoever waits for it.
        if item.is_none()
            && let Some(thread) = self.thread.take()
        {
            self.done = Some(join(thread));
        }
        item
    }
}

fn run<I: Iterator>(mut iterator: I, items: &SyncSender<I::Item>) -> I {
    for item in &mut iterator {
        if items.send(item).is_err() {
            break;
        }
    }
    iterator
}

fn join<I>(thread: JoinHandle<I>) -> I {
    match thread.join() {
        Ok(iterator) => iterator,
        Err(panicked) => panic::resume_unwind(panicked),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn all_items_come_in_order_and_the_iterator_comes_back() {
        let mut ahead = Ahead::start("numbers", 0..1_000).expect("a thread");
        assert!(ahead.by_ref().eq(0..1_000));
        assert_eq!(ahead.next(), None);
        assert_eq!(ahead.into_inner(), 1_000..1_000);
    }

    #[test]
    fn a_thread_whose_items_nobody_wants_ends() {
        let (sender, ended) = channel::<()>();
        let endless = std::iter::repeat_with(move || {
            let _ends_with_the_thread = &sender;
        });
        let mut ahead = Ahead::start("endless", endless).expect("a thread");
        ahead.next();
        drop(ahead);
        assert!(ended.recv().is_err());
    }

    #[test]
    fn a_panic_comes_through() {
        let broken = (0..3).map(|number| assert!(number < 2, "it broke"));
        let mut ahead = Ahead::start("broken", broken).expect("a thread");
        assert_eq!((ahead.next(), ahead.next()), (Some(()), Some(())));
        let panicked = catch_unwind(panic::AssertUnwindSafe(|| ahead.next()));
        assert!(panicked.is_err());
    }
}
