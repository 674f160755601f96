//! The pages: the parts between markers are written here, the rest by hand.

use std::fs;

use anyhow::{Context as _, Result};

use crate::{layout, progress::say};

/// Puts `text` where the page has the markers of `name`.
pub(super) fn write(page: &str, name: &str, text: &str) -> Result<()> {
    let file = layout::root().join(page);
    let old = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let new = replaced(&old, name, text).with_context(|| {
        format!(
            "{page} has no markers `{}` ... `{}`",
            begin(name),
            end(name)
        )
    })?;
    fs::write(&file, new).with_context(|| format!("writing {}", file.display()))?;
    say(format_args!("wrote {name} into {page}"));
    Ok(())
}

fn begin(name: &str) -> String {
    format!("<!-- bench {name} -->")
}

fn end(name: &str) -> String {
    format!("<!-- end of bench {name} -->")
}

fn replaced(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (begin(name), end(name));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!(
        "{before}{begin}\n{}\n{end}{after}",
        text.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let page = "By hand.\n<!-- bench a -->\nold\n<!-- end of bench a -->\n\
                    <!-- bench b -->\n<!-- end of bench b -->\n";
        assert_eq!(
            replaced(page, "a", "new\n").as_deref(),
            Some(
                "By hand.\n<!-- bench a -->\nnew\n<!-- end of bench a -->\n\
                 <!-- bench b -->\n<!-- end of bench b -->\n"
            )
        );
        assert_eq!(replaced(page, "c", "new"), None);
    }
}
