//! `launches`: which kernels and graphs a recording launches, from a [`Report`].

mod text;

use serde::Serialize;

use crate::report::{GraphLaunches, Kernel, Launches, Report};

pub use text::write;

/// Version of the JSON (docs/launches.md).
pub const SCHEMA: &str = "cudasnoop.launches/1";

/// Kernels and graphs by launches.
#[derive(Clone, Debug, Serialize)]
pub struct LaunchReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether the recording ended as it should.
    pub complete: bool,
    /// Whether the recording lost launches; `None` where it does not say.
    pub lossy: Option<bool>,
    /// Kernel launches with a row.
    pub launches: u64,
    /// Of them, those that went into a graph while a stream was captured: they ran nothing then.
    pub captured: u64,
    /// Of all, those of kernels without a name.
    pub unnamed: u64,
    /// Graph launches with a row.
    pub graph_launches: u64,
    /// Kernel launches inside them: of graphs whose capture was seen.
    pub in_graphs: u64,
    /// By function.
    pub functions: Vec<Launches>,
    /// By kernel, most launches first.
    pub kernels: Vec<KernelShare>,
    /// By graph, most launches first.
    pub graphs: Vec<GraphLaunches>,
}

/// A kernel and its share of all launches.
#[derive(Clone, Debug, Serialize)]
pub struct KernelShare {
    /// Of all kernel launches, 0 to 1.
    pub share: f64,
    /// The kernel.
    #[serde(flatten)]
    pub kernel: Kernel,
}

impl LaunchReport {
    /// What a report says of launches.
    pub fn of(report: Report) -> Self {
        let Report {
            recording,
            launches: functions,
            kernels,
            graph_launches: graphs,
            ..
        } = report;
        let launches: u64 = functions.iter().map(|function| function.launches).sum();
        let unnamed = kernels.iter().filter(|kernel| kernel.name.is_none());
        Self {
            schema: SCHEMA,
            complete: recording.complete,
            lossy: recording.lost.any(),
            launches,
            captured: functions.iter().map(|function| function.captured).sum(),
            unnamed: unnamed.map(|kernel| kernel.launches).sum(),
            graph_launches: graphs.iter().map(|graph| graph.launches).sum(),
            in_graphs: graphs
                .iter()
                .map(|graph| graph.kernels.unwrap_or(0).saturating_mul(graph.launches))
                .fold(0, u64::saturating_add),
            kernels: kernels
                .into_iter()
                .map(|kernel| KernelShare {
                    share: share(kernel.launches, launches),
                    kernel,
                })
                .collect(),
            functions,
            graphs,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
fn share(part: u64, all: u64) -> f64 {
    if all == 0 {
        0.0
    } else {
        part as f64 / all as f64
    }
}
