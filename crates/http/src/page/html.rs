//! HTML whose text is always escaped.

use std::borrow::Cow;

use countersign_core::escape_hidden;

use crate::people::Login;

/// Builds HTML. Only `raw` takes markup, and only from the program's own text.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds the program's own markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds any text. Escapes characters with a meaning in HTML, invisible and bidirectional ones, and letters of another
    /// script in a Latin word.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        // Line breaks are shown as such.
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.0.push('\n');
            }
            self.spelled(&escape_hidden(line));
        }
        self
    }

    /// Adds text whose invisible characters are escaped already.
    pub(super) fn spelled(&mut self, text: &str) -> &mut Self {
        for c in spell_mixed(text).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
        self
    }

    pub(super) fn html(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// Adds a row of a description list.
    pub(super) fn row(&mut self, name: &str, value: &str) -> &mut Self {
        self.raw("<div><dt>").text(name).raw("</dt><dd>").text(value).raw("</dd></div>")
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Spells out the letters of another script in a word with Latin letters: they may look like Latin ones.
fn spell_mixed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let is_latin = |c: char| c.is_ascii_alphabetic();
    let is_other = |c: char| c.is_alphabetic() && c >= '\u{370}' && !('\u{1e00}'..='\u{1eff}').contains(&c);
    let mut spelled = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        if word.contains(is_latin) && word.contains(is_other) {
            for c in word.chars() {
                if is_other(c) { spelled.extend(c.escape_unicode()) } else { spelled.push(c) }
            }
        } else {
            spelled.push_str(word);
        }
    }
    spelled.into()
}

/// Builds a whole document around the body.
pub(super) fn document(title: &str, login: Option<&Login>, body: &Html) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>")
        .text(title)
        .raw(" \u{b7} Countersign</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")
        .raw("<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"stylesheet\" href=\"/page/style.css\">")
        .raw("<script src=\"/page/script.js\" defer></script></head><body><header><a class=\"name\" href=\"/page\">")
        .raw("Countersign</a>");
    if let Some(login) = login {
        html.raw("<nav aria-label=\"Views\"><a href=\"/page\">Questions</a> <a href=\"/page/status\">Status</a></nav>")
            .raw("<form method=\"post\" action=\"/page/logout\">");
        html.html(&csrf_field(login));
        html.raw("<span>").text(login.user.as_str()).raw("</span> <button>Log out</button></form>");
    }
    html.raw("</header><main>").html(body).raw("</main></body></html>");
    html.into_text()
}

/// The hidden field by which a form shows that this page wrote it.
pub(super) fn csrf_field(login: &Login) -> Html {
    let mut html = Html::default();
    html.raw("<input type=\"hidden\" name=\"csrf\" value=\"").text(&login.csrf).raw("\">");
    html
}

#[cfg(test)]
mod tests {
    use super::{Html, spell_mixed};

    #[test]
    fn letters_of_another_script_in_a_latin_word_are_spelled_out() {
        assert_eq!(
            spell_mixed("p\u{430}ypal, \u{430}\u{431} caf\u{e9}"),
            "p\\u{430}ypal, \u{430}\u{431} caf\u{e9}"
        );
        assert_eq!(spell_mixed("plain"), "plain");
    }

    #[test]
    fn markup_in_a_text_is_escaped() {
        let mut html = Html::default();
        html.text("<b onclick='x'>\"&\u{202e}\n</b>");
        assert_eq!(html.into_text(), "&lt;b onclick=&#39;x&#39;&gt;&quot;&amp;\\u{202e}\n&lt;/b&gt;");
    }
}
