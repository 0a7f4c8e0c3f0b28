package webpage

import (
	"regexp"
	"strings"
	"time"

	readability "codeberg.org/readeck/go-readability/v2"
	"codeberg.org/readeck/go-readability/v2/render"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// article is what a page says.
type article struct {
	title, byline, published, lang *string
	text                           string
	warnings                       []string
}

// MaxElements bounds the work of finding the article. Pages of this size are data, not prose.
const MaxElements = 100_000

// read finds the article of a page.
func read(p page) (article, error) {
	if !p.html {
		return article{text: tidy(p.text), lang: firstOf(p.language)}, nil
	}
	doc, err := html.Parse(strings.NewReader(p.text))
	if err != nil {
		return article{}, parseFailed("html", "the HTML of the page cannot be parsed")
	}
	lang, title, whole := language(doc), titleOf(doc), tidy(render.InnerText(doc)) // before the parser changes it
	parser := readability.NewParser()
	parser.MaxElemsToParse = MaxElements
	found, err := parser.ParseAndMutate(doc, p.url)
	if err != nil {
		return article{}, parseFailed("too_complex", "the page has too many elements")
	}
	a := article{
		title: firstOf(wholeTitle(found.Title(), title)), byline: firstOf(found.Byline()), published: published(found),
		lang: firstOf(found.Language(), lang, p.language),
	}
	if found.Node != nil {
		a.text = tidy(render.InnerText(found.Node))
	}
	if a.text == "" && whole != "" {
		a.text = whole
		a.warnings = append(a.warnings, "no article was found; the text is that of the whole page")
	}
	if a.text == "" {
		return article{}, parseFailed("no_text", "the page has no text; it may need a browser that runs scripts")
	}
	return a, nil
}

func published(found readability.Article) *string {
	at, err := found.PublishedTime()
	if err != nil || at.IsZero() {
		return nil
	}
	return firstOf(at.Format(time.RFC3339))
}

// titleOf is the text of the title element.
func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && n.Namespace == "" && n.FirstChild != nil {
			return n.FirstChild.Data
		}
	}
	return ""
}

// wholeTitle is the title that the parser found, unless it cut the title element inside a word:
// it takes the hyphen of "Back-pressure" for the one before the name of a site.
func wholeTitle(found, title string) string {
	title = strings.Join(strings.Fields(title), " ")
	if at := strings.Index(title, found); at > 0 && title[at-1] != ' ' {
		return title
	}
	return found
}

// language is what a page says of its own language: the lang attribute of its root element.
func language(doc *html.Node) string {
	for n := range doc.ChildNodes() {
		if n.DataAtom != atom.Html {
			continue
		}
		for _, attribute := range n.Attr {
			if attribute.Key == "lang" || attribute.Key == "xml:lang" {
				return attribute.Val
			}
		}
	}
	return ""
}

var (
	spaceAtEnd = regexp.MustCompile(`[ \t\r\f\v]+\n`)
	emptyLines = regexp.MustCompile(`\n{3,}`)
)

// tidy removes space at the ends of lines and more than one empty line in a row.
func tidy(text string) string {
	text = spaceAtEnd.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	return strings.TrimSpace(emptyLines.ReplaceAllString(text, "\n\n"))
}
