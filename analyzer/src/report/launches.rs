//! Launches by function, kernels, and graph launches.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use agent_common::launch::Dimensions;
use agent_common::{ApiId, Effect, flags};
use trace::fact;

use super::capped::Capped;
use super::graphs::{GRAPHS, Graph, Graphs};
use super::row::Row;
use super::shapes::Shapes;
use super::{Durations, GraphLaunches, Kept, Kernel, Launches, LeftOut};
use crate::demangle;
use crate::histogram::{Histogram, Precision};

/// Most kernels of one function that are told apart.
const KERNELS: u32 = 65_536;

/// What is gathered of launches.
#[derive(Debug)]
pub(super) struct LaunchTable {
    /// By [`ApiId`].
    functions: Vec<Function>,
    /// By kernel id: what it means, as far as the recording told.
    names: BTreeMap<u32, fact::Kernel>,
    /// Ready graphs, by process id and handle.
    execs: Capped<(u32, Option<u64>), Exec>,
    graphs: Graphs,
}

/// Launches through one function.
#[derive(Debug, Default)]
struct Function {
    /// By kernel id: recorders number from 0.
    kernels: Vec<Option<Box<Shapes>>>,
    /// Of kernels that have no id, or one beyond [`KERNELS`].
    others: Option<Box<Shapes>>,
    /// Launches of kernels with an id beyond [`KERNELS`].
    beyond: u64,
}

/// A ready graph.
#[derive(Debug)]
struct Exec {
    graph: Graph,
    launches: u64,
    durations: Histogram,
}

impl LaunchTable {
    pub(super) fn new() -> Self {
        Self {
            functions: ApiId::all().map(|_| Function::default()).collect(),
            names: BTreeMap::new(),
            execs: Capped::new(GRAPHS),
            graphs: Graphs::default(),
        }
    }

    /// Takes in a row of a kernel launch, and its shape.
    pub(super) fn launch(&mut self, id: ApiId, row: &Row<'_>, shape: Option<Dimensions>) {
        if let Some(function) = self.functions.get_mut(usize::from(id.0)) {
            let captured = row.flags() & flags::CAPTURED != 0;
            if captured {
                self.graphs.captured(row.pid(), row.tid());
            }
            function.kernel(row.kernel()).launch(shape, captured);
        }
    }

    /// Takes in a row of a graph launch.
    pub(super) fn graph_launch(&mut self, row: &Row<'_>) {
        let exec = self.execs.entry((row.pid(), row.handle()), Exec::new);
        exec.launches += 1;
        if let Some(duration) = row.duration() {
            exec.durations.record(duration);
        }
    }

    /// Takes in a row that tells of a graph before it is launched.
    pub(super) fn graph(&mut self, effect: Effect, row: &Row<'_>) {
        if let Some(graph) = self.graphs.call(effect, row) {
            let exec = (row.pid(), row.handle());
            self.execs.entry(exec, Exec::new).graph = graph;
        }
    }

    /// How a recorder was set.
    pub(super) fn recorder_set(&mut self, settings: &fact::Settings) {
        self.graphs.recorder_set(settings);
    }

    /// Launches were traced in windows alone.
    pub(super) fn sampled(&mut self) {
        self.graphs.sampled();
    }

    /// What a kernel id means. It may be told again, when more is known.
    pub(super) fn kernel_named(&mut self, kernel: fact::Kernel) {
        let known = self
            .names
            .entry(kernel.id)
            .or_insert_with(|| kernel.clone());
        let fact::Kernel {
            id: _,
            name,
            module,
            handle,
        } = kernel;
        known.name = name.or_else(|| known.name.take());
        known.module = module.or_else(|| known.module.take());
        known.handle = handle;
    }

    /// The name of a kernel, as far as it is known.
    pub(super) fn kernel_name(&self, id: u32) -> Option<String> {
        self.names.get(&id)?.name.clone()
    }

    /// What was more than is kept.
    pub(super) fn left_out(&self) -> Vec<LeftOut> {
        let beyond = self.functions.iter().map(|function| function.beyond);
        let kernels = LeftOut::of(Kept::Kernels, KERNELS as usize, beyond.sum());
        kernels.into_iter().chain(self.graphs.left_out(0)).collect()
    }

    /// [`super::Report::launches`], [`super::Report::kernels`] and
    /// [`super::Report::graph_launches`].
    pub(super) fn finish(self) -> (Vec<Launches>, Vec<Kernel>, Vec<GraphLaunches>) {
        let Self {
            functions,
            names,
            execs,
            graphs,
        } = self;
        let knows_kernels = graphs.have_all_launches();
        let mut launches = Vec::new();
        let mut kernels = BTreeMap::new();
        for (id, function) in ApiId::all().zip(functions) {
            let mut of_function = Shapes::new();
            for (kernel, shapes) in function.into_kernels() {
                of_function.merge(&shapes);
                kernels
                    .entry(kernel)
                    .or_insert_with(Shapes::new)
                    .merge(&shapes);
            }
            let (count, captured, shape) = of_function.finish();
            if let Some(api) = id.api().filter(|_| count > 0) {
                launches.push(Launches {
                    api: api.name,
                    launches: count,
                    captured,
                    shape,
                });
            }
        }
        launches.sort_by_key(|launches| Reverse(launches.launches));
        let execs = execs.into_sorted().into_iter();
        let mut graph_launches: Vec<GraphLaunches> = execs
            .filter(|(_, exec)| exec.launches > 0)
            .map(|(key, exec)| exec.finish(key, knows_kernels))
            .collect();
        graph_launches.sort_by_key(|graph| Reverse(graph.launches));
        (launches, finish_kernels(kernels, &names), graph_launches)
    }
}

impl Function {
    #[inline]
    fn kernel(&mut self, id: Option<u32>) -> &mut Shapes {
        let place = match id {
            Some(id) if id < KERNELS => {
                let index = id as usize;
                if index >= self.kernels.len() {
                    self.kernels.resize_with(index + 1, || None);
                }
                &mut self.kernels[index]
            }
            Some(_) => {
                self.beyond += 1;
                &mut self.others
            }
            None => &mut self.others,
        };
        place.get_or_insert_with(|| Box::new(Shapes::new()))
    }

    /// By kernel id; `None`: of the others.
    fn into_kernels(self) -> impl Iterator<Item = (Option<u32>, Shapes)> {
        let kernels = (0..)
            .map(Some)
            .zip(self.kernels)
            .chain([(None, self.others)]);
        kernels.filter_map(|(id, shapes)| Some((id, *shapes?)))
    }
}

/// Kernels of one name and module are one kernel, whatever handles it was launched by.
fn finish_kernels(
    kernels: BTreeMap<Option<u32>, Shapes>,
    names: &BTreeMap<u32, fact::Kernel>,
) -> Vec<Kernel> {
    let mut merged = BTreeMap::new();
    for (id, shapes) in kernels {
        let known = id.and_then(|id| names.get(&id));
        let name = known.and_then(|kernel| kernel.name.as_deref());
        let module = known.and_then(|kernel| kernel.module.as_deref());
        let handle = known.map(|kernel| kernel.handle);
        let apart = name.is_none().then_some((id, handle));
        let kernel = merged.entry((name, module, apart));
        kernel.or_insert_with(Shapes::new).merge(&shapes);
    }
    let mut kernels = Vec::new();
    for ((name, module, apart), shapes) in merged {
        let (launches, captured, shape) = shapes.finish();
        kernels.push(Kernel {
            name: name.map(str::to_owned),
            demangled: name.and_then(demangle::full),
            module: module.map(str::to_owned),
            handle: apart.and_then(|(_, handle)| handle),
            launches,
            captured,
            shape,
        });
    }
    kernels.sort_by_key(|kernel| Reverse(kernel.launches));
    kernels
}

impl Exec {
    fn new() -> Self {
        Self {
            graph: Graph::default(),
            launches: 0,
            durations: Histogram::new(Precision::Fine),
        }
    }

    /// `key`: `None` for all beyond the limit.
    fn finish(self, key: Option<(u32, Option<u64>)>, knows_kernels: bool) -> GraphLaunches {
        let Self {
            graph: Graph { nodes, kernels },
            launches,
            durations,
        } = self;
        GraphLaunches {
            pid: key.map(|(pid, _)| pid),
            exec: key.and_then(|(_, exec)| exec),
            nodes: nodes.filter(|_| key.is_some()),
            kernels: kernels.filter(|_| key.is_some() && knows_kernels),
            launches,
            duration_ns: Durations::of(&durations),
        }
    }
}
