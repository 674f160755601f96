//! Would a request fit, and why did one fail?

use std::io;

use crate::text::{bytes, duration};

use super::super::report::{Fit, OutOfMemory, Torch};
use super::ROWS_SHOWN;
use super::page::{Page, times};

pub(super) fn fit(fit: &Fit, page: &mut Page) -> io::Result<()> {
    page.heading(&format!("Would {} fit?", bytes(fit.requested)))?;
    let answer = |fits: Option<bool>| match fits {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    };
    let cached = answer(fit.cached.fits);
    page.paragraph(
        2,
        &format!("In a free block: {cached}; {}", fit.cached.reason),
    )?;
    let new = answer(fit.new_segment.fits);
    page.paragraph(
        2,
        &format!("In a new segment: {new}; {}", fit.new_segment.reason),
    )
}

pub(super) fn out_of_memory(torch: &Torch, page: &mut Page) -> io::Result<()> {
    if torch.out_of_memory_count == 0 {
        return Ok(());
    }
    page.heading(&format!(
        "Out of memory {}",
        times(torch.out_of_memory_count)
    ))?;
    for oom in torch.out_of_memory.iter().take(ROWS_SHOWN) {
        one_out_of_memory(oom, page)?;
    }
    page.more(torch.out_of_memory.len(), ROWS_SHOWN, "of them")?;
    if torch
        .out_of_memory
        .iter()
        .any(|oom| oom.fragmented == Some(true))
    {
        page.paragraph(
            2,
            "Try PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF before \
             PyTorch 2.10): segments then grow instead of leaving gaps. Not together with \
             vLLM's sleep mode.",
        )?;
    }
    Ok(())
}

fn one_out_of_memory(oom: &OutOfMemory, page: &mut Page) -> io::Result<()> {
    let moment = page.moment(oom.at_ns);
    page.alarm(
        2,
        &format!(
            "{moment}: thread {} asked for {}",
            oom.tid,
            bytes(oom.asked)
        ),
    )?;
    page.paragraph(
        4,
        &format!(
            "allocated {}, reserved {}, unused {}; in the pool that serves it {} free, the \
             largest free block {}",
            bytes(oom.allocated),
            bytes(oom.reserved),
            bytes(oom.unused),
            bytes(oom.free_in_pool),
            bytes(oom.largest_free)
        ),
    )?;
    if let (Some(free), Some(total)) = (oom.device_free, oom.device_total) {
        let age = oom
            .device_free_age_ns
            .map_or_else(String::new, |age| format!(", {} before", duration(age)));
        let line = format!("device: {} of {} free{age}", bytes(free), bytes(total));
        page.paragraph(4, &line)?;
    }
    let verdict = match oom.fragmented {
        Some(true) => "Fragmented: the free bytes would have sufficed in one piece.",
        Some(false) if oom.largest_free >= oom.asked => {
            "Not fragmented: a free block was large enough, but of another stream or memory \
             pool, or still waiting for a stream."
        }
        Some(false) => "Not fragmented: all free bytes together would not have sufficed.",
        None => "Fragmented or not is not known: the map was partial.",
    };
    page.paragraph(4, verdict)?;
    if oom.device_had_room == Some(true) {
        page.paragraph(
            4,
            "The device had room for the segment: a memory fraction set the limit, or others \
             gave memory back in between.",
        )?;
    }
    if let Some(retry) = oom.retry {
        let why = if retry.pending_free {
            "with nothing freed in between: memory freed before was still waiting for a stream"
                .to_owned()
        } else if retry.new_segment {
            "in a new segment".to_owned()
        } else {
            format!("after {} were freed", bytes(retry.freed))
        };
        let after = duration(retry.after_ns);
        page.paragraph(
            4,
            &format!("The same request succeeded {after} later, {why}."),
        )?;
    }
    Ok(())
}
