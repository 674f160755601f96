//! The files that pages are made of, as they stand in `analyzer/assets`. Nothing else is loaded:
//! a page's policy forbids it.

/// Draws charts over time: <https://github.com/leeoniya/uPlot>, MIT.
pub const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");

/// Its licence, which goes wherever it goes.
pub const UPLOT_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");

/// uPlot's style.
pub const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");

/// Colours, type, and the parts that all pages have.
pub const STYLE: &str = concat!(
    include_str!("../../assets/page/colours.css"),
    include_str!("../../assets/page/layout.css"),
    include_str!("../../assets/page/parts.css"),
);

/// What all pages are built with: elements, numbers, tables, charts, maps.
pub const PARTS: &str = concat!(
    include_str!("../../assets/page/format.js"),
    include_str!("../../assets/page/dom.js"),
    include_str!("../../assets/page/kinds.js"),
    include_str!("../../assets/page/table.js"),
    include_str!("../../assets/page/steps.js"),
    include_str!("../../assets/page/curve.js"),
    include_str!("../../assets/page/map.js"),
    include_str!("../../assets/page/histogram.js"),
);

/// The sections of reports, and what puts a report's page together.
pub(super) const REPORTS: &str = concat!(
    include_str!("../../assets/page/headline.js"),
    include_str!("../../assets/page/findings.js"),
    include_str!("../../assets/page/whole.js"),
    include_str!("../../assets/page/memory.js"),
    include_str!("../../assets/page/calls.js"),
    include_str!("../../assets/page/snapshot.js"),
    include_str!("../../assets/page/report.js"),
);
