//! What all pages have around them: the head with the style, and the scripts at the end.

use std::io::{self, Write};

use super::assets;

/// A page's frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What the page is about: the command that made it.
    pub command: &'a str,
    /// Where scripts may connect to, as the policy `connect-src` names it: `'none'`, `'self'`.
    pub connect: &'a str,
    /// What those read whose browser runs no scripts.
    pub fallback: &'a str,
}

impl Frame<'_> {
    /// What the page may load, run and connect to, as `Content-Security-Policy` has it: nothing
    /// but what stands in it, and [`Self::connect`].
    pub fn policy(&self) -> String {
        format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
             img-src data:; connect-src {}; base-uri 'none'; form-action 'none'",
            self.connect
        )
    }

    /// Everything up to the data of the page.
    pub fn open(&self, output: &mut dyn Write) -> io::Result<()> {
        let Self {
            command,
            connect: _,
            fallback,
        } = self;
        write!(
            output,
            "<!doctype html>\n\
             <html lang=\"en\">\n\
             <head>\n\
             <meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"generator\" content=\"cudasnoop {version}\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>cudasnoop {command}</title>\n\
             <style>\n{uplot_style}\n{style}</style>\n\
             </head>\n\
             <body data-command=\"{command}\">\n\
             <a class=\"skip\" href=\"#page\">Skip to the contents</a>\n\
             <main id=\"page\"></main>\n\
             <noscript><p>{fallback}</p></noscript>\n",
            policy = self.policy(),
            version = env!("CARGO_PKG_VERSION"),
            uplot_style = assets::UPLOT_STYLE,
            style = assets::STYLE,
        )
    }

    /// The scripts, of which the page's own come after the parts of all pages.
    pub fn close(&self, output: &mut dyn Write, own: &str) -> io::Result<()> {
        write!(
            output,
            "<script>\n/*\nuPlot\n{}*/\n{}\n</script>\n\
             <script>\n(() => {{\n\"use strict\";\n{}{own}}})();\n</script>\n\
             </body>\n</html>\n",
            assets::UPLOT_LICENCE,
            assets::UPLOT,
            assets::PARTS,
        )
    }
}
