//! Launches by function, kernels, and graph launches.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use agent_common::ApiId;
use trace::fact;

use super::capped::Capped;
use super::row::Row;
use super::shapes::Shapes;
use super::{Durations, GraphLaunches, Kernel, Launches};
use crate::demangle;
use crate::histogram::{Histogram, Precision};

/// Most kernels of one function, and most graphs, that are told apart.
const KERNELS: u32 = 65_536;
const GRAPHS: usize = 4096;

/// What is gathered of launches.
#[derive(Debug)]
pub(super) struct LaunchTable {
    /// By [`ApiId`].
    functions: Vec<Function>,
    /// By kernel id: what it means, as far as the recording told.
    names: BTreeMap<u32, fact::Kernel>,
    /// By process id and handle.
    graphs: Capped<(u32, Option<u64>), Graph>,
}

/// Launches through one function.
#[derive(Debug, Default)]
struct Function {
    /// By kernel id: recorders number from 0.
    kernels: Vec<Option<Box<Shapes>>>,
    /// Of kernels that have no id, or one beyond [`KERNELS`].
    others: Option<Box<Shapes>>,
}

#[derive(Debug)]
struct Graph {
    launches: u64,
    durations: Histogram,
}

impl LaunchTable {
    pub(super) fn new() -> Self {
        Self {
            functions: ApiId::all().map(|_| Function::default()).collect(),
            names: BTreeMap::new(),
            graphs: Capped::new(GRAPHS),
        }
    }

    /// Takes in a row of a kernel launch.
    pub(super) fn launch(&mut self, id: ApiId, row: Row<'_>) {
        if let Some(function) = self.functions.get_mut(usize::from(id.0)) {
            function.kernel(row.kernel()).launch(row.dimensions());
        }
    }

    /// Takes in a row of a graph launch.
    pub(super) fn graph_launch(&mut self, row: Row<'_>) {
        let graph = self.graphs.entry((row.pid(), row.handle()), Graph::new);
        graph.launches += 1;
        if let Some(duration) = row.duration() {
            graph.durations.record(duration);
        }
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

    /// [`super::Report::launches`], [`super::Report::kernels`] and
    /// [`super::Report::graph_launches`].
    pub(super) fn finish(self) -> (Vec<Launches>, Vec<Kernel>, Vec<GraphLaunches>) {
        let Self {
            functions,
            names,
            graphs,
        } = self;
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
            let (count, shape) = of_function.finish();
            if let Some(api) = id.api().filter(|_| count > 0) {
                launches.push(Launches {
                    api: api.name,
                    launches: count,
                    shape,
                });
            }
        }
        launches.sort_by_key(|launches| Reverse(launches.launches));
        let graphs = graphs.into_sorted().into_iter();
        let mut graph_launches: Vec<GraphLaunches> =
            graphs.map(|(key, graph)| graph.finish(key)).collect();
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
            Some(_) | None => &mut self.others,
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
        let (launches, shape) = shapes.finish();
        kernels.push(Kernel {
            name: name.map(str::to_owned),
            demangled: name.and_then(demangle::full),
            module: module.map(str::to_owned),
            handle: apart.and_then(|(_, handle)| handle),
            launches,
            shape,
        });
    }
    kernels.sort_by_key(|kernel| Reverse(kernel.launches));
    kernels
}

impl Graph {
    fn new() -> Self {
        Self {
            launches: 0,
            durations: Histogram::new(Precision::Fine),
        }
    }

    fn finish(self, key: Option<(u32, Option<u64>)>) -> GraphLaunches {
        let Self {
            launches,
            durations,
        } = self;
        GraphLaunches {
            pid: key.map(|(pid, _)| pid),
            exec: key.and_then(|(_, exec)| exec),
            launches,
            duration_ns: Durations::of(&durations),
        }
    }
}
