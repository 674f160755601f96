//! Kernel names as people read them.
//!
//! Names come from recordings, and a mangled name of a few hundred bytes can stand for
//! gigabytes of text, or for nesting deeper than the stack: both are limited.

use std::fmt;

use cpp_demangle::{
    BorrowedSymbol, DemangleNodeType, DemangleOptions, DemangleWrite, ParseOptions, Symbol,
};

/// Nesting that is followed, in parsing and in printing.
const DEPTH: u32 = 96;

/// Longest demangled name, bytes. The longest kernel of torch 2.14 has 2,301 bytes mangled.
const LONGEST: usize = 64 << 10;

/// The full C++ name; `None` where `name` is no mangled name, or expands beyond the limits.
pub fn full(name: &str) -> Option<String> {
    if !is_mangled(name) {
        return None;
    }
    let symbol = parse(name)?;
    print(&symbol, DemangleOptions::new(), usize::MAX)
}

/// A name of at most `width` characters: without return type and parameters, and with the
/// innermost template arguments left out first. A name that cannot be demangled is cut.
pub fn short(name: &str, width: usize) -> String {
    cut_front(&folded(name, width), width)
}

/// The same, without the cut: longer than `width` where leaving out all template arguments is not
/// enough, and where the name cannot be demangled.
pub fn folded(name: &str, width: usize) -> String {
    let shorter = || {
        let symbol = is_mangled(name).then(|| parse(name)).flatten()?;
        let options = DemangleOptions::new()
            .no_params()
            .no_return_type()
            .hide_expression_literal_types();
        let mut shortest = None;
        for template_depth in (0..4).rev() {
            let text = print(&symbol, options, template_depth)?;
            if text.chars().count() <= width {
                return Some(text);
            }
            shortest = Some(text);
        }
        shortest
    };
    shorter().unwrap_or_else(|| name.to_owned())
}

/// The last `width` characters: what tells names in one namespace apart stands at the end.
fn cut_front(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let tail = text.chars().skip(length + 1 - width);
    std::iter::once('…').chain(tail).collect()
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z")
}

fn parse(name: &str) -> Option<BorrowedSymbol<'_>> {
    Symbol::new_with_options(
        name.as_bytes(),
        &ParseOptions::default().recursion_limit(DEPTH),
    )
    .ok()
}

fn print(
    symbol: &BorrowedSymbol<'_>,
    options: DemangleOptions,
    template_depth: usize,
) -> Option<String> {
    let mut printer = Printer {
        template_depth,
        ..Printer::default()
    };
    symbol
        .structured_demangle(&mut printer, &options.recursion_limit(DEPTH))
        .ok()?;
    Some(printer.text)
}

/// Collects a name up to [`LONGEST`], with `…` for template arguments nested deeper than
/// `template_depth`.
#[derive(Default)]
struct Printer {
    text: String,
    template_depth: usize,
    /// For each open node, whether it is a list of template arguments.
    nodes: Vec<bool>,
    /// How many of them are.
    templates: usize,
    /// Bytes of the name so far, those left out included.
    length: usize,
}

impl DemangleWrite for Printer {
    fn push_demangle_node(&mut self, node: DemangleNodeType) {
        let is_template = node == DemangleNodeType::TemplateArgs;
        if is_template && self.templates == self.template_depth {
            self.text.push('…');
        }
        self.templates += usize::from(is_template);
        self.nodes.push(is_template);
    }

    fn write_string(&mut self, text: &str) -> fmt::Result {
        self.length += text.len();
        if self.length > LONGEST {
            return Err(fmt::Error);
        }
        if self.templates <= self.template_depth {
            self.text.push_str(text);
        }
        Ok(())
    }

    fn pop_demangle_node(&mut self) {
        self.templates -= usize::from(self.nodes.pop().unwrap_or(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>,
    /// std::array<char*, 1ul> >(int, ..)`, from `libtorch_cuda`.
    const FILL: &str = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE\
                        St5arrayIPcLm1EEEEviT0_T1_";

    #[test]
    fn names_are_demangled_in_full() {
        assert_eq!(
            full("_Z3addPKfPfi").as_deref(),
            Some("add(float const*, float*, int)")
        );
        let fill = full(FILL).expect("a mangled name");
        assert!(
            fill.starts_with("void at::native::vectorized_elementwise_kernel<4, "),
            "{fill}"
        );
        assert!(
            fill.ends_with(
                ">(int, at::native::FillFunctor<float>, std::array<char*, (unsigned long)1>)"
            ),
            "{fill}"
        );
    }

    #[test]
    fn what_is_not_mangled_stays() {
        for name in ["triton_poi_fused_add_0", "", "_Z", "_ZN", "_Z3ad"] {
            assert_eq!(full(name), None, "{name}");
            assert_eq!(short(name, 40), name);
        }
    }

    #[test]
    fn short_names_lose_inner_templates_first() {
        assert_eq!(
            short(FILL, 120),
            "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, \
             std::array<char*, 1> >"
        );
        assert_eq!(
            short(FILL, 90),
            "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<…>, \
             std::array<…> >"
        );
        assert_eq!(
            short(FILL, 60),
            "at::native::vectorized_elementwise_kernel<…>"
        );
        assert_eq!(short(FILL, 30), "…torized_elementwise_kernel<…>");
    }

    #[test]
    fn a_name_that_doubles_with_each_argument_is_refused() {
        // f(int*, A<int*, int*>, A<A<..>, A<..>>, ..): each argument is twice the one before.
        let mut bomb = String::from("_Z1fPi1AIS_S_E");
        for digit in ('1'..='9').chain('A'..='V') {
            bomb.push_str(&"S0_IS1_S1_E".replace('1', &digit.to_string()));
        }
        assert!(parse(&bomb).is_some(), "a valid name");
        assert_eq!(full(&bomb), None);
        assert!(short(&bomb, 40).chars().count() <= 40);
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = format!("_Z1f{}i", "P".repeat(1 << 20));
        assert_eq!(full(&deep), None);
        assert_eq!(short(&deep, 10), "…PPPPPPPPi");
    }
}
